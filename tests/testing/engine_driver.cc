#include "tests/testing/engine_driver.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace riskkv::testing {

absl::Status Feed(Engine& engine, SeqId seq, const std::vector<Token>& tokens, int batch) {
  for (std::size_t at = 0; at < tokens.size(); at += static_cast<std::size_t>(batch)) {
    StepItem item;
    item.seq = seq;
    item.n_past = engine.Length(seq);
    item.tokens = std::span(tokens).subspan(
        at, std::min<std::size_t>(static_cast<std::size_t>(batch), tokens.size() - at));
    auto result = engine.Step(std::span(&item, 1));
    if (!result.ok()) return result.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<Stream> StartStream(Engine& engine, std::vector<Token> prompt, const SamplingParams& params,
                                   int batch) {
  Stream stream;
  stream.n_prompt = static_cast<int64_t>(prompt.size());
  ASSIGN_OR_RETURN(stream.seq, engine.OpenSequence());
  stream.tokens = std::move(prompt);
  RETURN_IF_ERROR(Feed(engine, stream.seq, {stream.tokens.begin(), stream.tokens.end() - 1}, batch));
  RETURN_IF_ERROR(Continue(engine, stream, params, 1));
  return stream;
}

absl::Status Continue(Engine& engine, Stream& stream, const SamplingParams& params, int n) {
  for (int i = 0; i < n; ++i) {
    StepItem item;
    item.seq = stream.seq;
    item.n_past = engine.Length(stream.seq);
    item.tokens = std::span(stream.tokens).last(1);
    item.sample = true;
    item.sampling = &params;
    item.history = stream.tokens;
    item.n_prompt = stream.n_prompt;
    ASSIGN_OR_RETURN(std::vector<Sampled> drawn, engine.Step(std::span(&item, 1)));
    stream.tokens.push_back(drawn.at(0).token);
    stream.logprobs.push_back(drawn.at(0).logprob);
  }
  return absl::OkStatus();
}

absl::StatusOr<Stream> MoveStream(Engine& from, Engine& to, const Stream& stream, int64_t block) {
  Stream moved = stream;
  ASSIGN_OR_RETURN(moved.seq, to.OpenSequence());
  const int64_t length = from.Length(stream.seq);
  const std::vector<int> layers = AllLayers(from.facts().fingerprint.layout);
  for (int64_t at = 0; at < length; at += block) {
    ASSIGN_OR_RETURN(KvBlock cells, from.Export(stream.seq, {at, std::min(length, at + block)}, layers));
    RETURN_IF_ERROR(to.Append(moved.seq, cells));
  }
  return moved;
}

}  // namespace riskkv::testing

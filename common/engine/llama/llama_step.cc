// Computing: Step and Score.
#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/engine/checks.h"
#include "common/engine/llama/batch.h"
#include "common/engine/llama/llama_engine.h"
#include "common/engine/llama/log.h"
#include "common/engine/llama/sampler.h"
#include "fmt/format.h"
#include "llama.h"

namespace riskkv {
namespace {

// Results of llama_decode (llama.h).
constexpr int kNoCells = 1;
constexpr int kAborted = 2;

constexpr std::size_t kMinScoreBatch = 64;

// Length of the next batch of a teacher-forced run with `left` tokens to go: `batch`, but never so that a
// rest below 64 tokens remains, since only batches of 64 and more give the same bits whatever the threads.
std::size_t NextScoreBatch(std::size_t left, std::size_t batch) {
  if (left <= batch) return left;
  const std::size_t rest = left - batch;
  if (rest >= kMinScoreBatch) return batch;
  const std::size_t shorter = left - kMinScoreBatch;
  return shorter >= kMinScoreBatch ? shorter : batch;
}

}  // namespace

absl::Status LlamaEngine::Decode() {
  if (interrupted_.exchange(false)) return absl::CancelledError("interrupted");
  LlamaErrorScope errors;
  const int rc = llama_decode(context_.get(), batch_->batch);
  if (rc == 0) return absl::OkStatus();
  if (rc == kAborted) {
    interrupted_ = false;
    return absl::CancelledError("interrupted");
  }
  if (rc == kNoCells) {
    return MakeError(absl::StatusCode::kResourceExhausted, "NO_BLOCKS",
                     fmt::format("llama.cpp finds no cells for {} tokens", batch_->batch.n_tokens));
  }
  return absl::InternalError(fmt::format("llama_decode returned {}: {}", rc, errors.Text("no reason given")));
}

absl::StatusOr<std::vector<Sampled>> LlamaEngine::Step(std::span<const StepItem> items) {
  auto length = [this](SeqId seq) { return IsOpen(seq) ? Length(seq) : -1; };
  RETURN_IF_ERROR(CheckStep(items, limits_, facts_.n_vocab, CellsFree(), length));
  if (items.empty()) return std::vector<Sampled>();
  batch_->Clear();
  for (const StepItem& item : items) {
    for (std::size_t i = 0; i < item.tokens.size(); ++i) {
      const bool logits = item.sample && i + 1 == item.tokens.size();
      batch_->Add(item.seq, item.n_past + static_cast<int64_t>(i), item.tokens[i], logits);
    }
  }
  absl::Status decoded = Decode();
  absl::StatusOr<std::vector<Sampled>> drawn = decoded.ok() ? DrawAll(items) : decoded;
  for (const StepItem& item : items) {
    // A failed or interrupted batch may leave cells of the parts it finished.
    if (!drawn.ok())
      DropCells(item.seq, item.n_past);
    else
      SetLength(item.seq, item.n_past + static_cast<int64_t>(item.tokens.size()));
  }
  return drawn;
}

absl::StatusOr<std::vector<Sampled>> LlamaEngine::DrawAll(std::span<const StepItem> items) {
  std::vector<Sampled> results;
  int row = -1;
  for (const StepItem& item : items) {
    row += static_cast<int>(item.tokens.size());
    if (!item.sample) continue;
    const float* logits = llama_get_logits_ith(context_.get(), row);
    if (logits == nullptr) return absl::InternalError(fmt::format("llama.cpp has no logits for row {}", row));
    ASSIGN_OR_RETURN(Sampled sampled, sampler_->Draw(logits, item));
    results.push_back(std::move(sampled));
  }
  return results;
}

absl::StatusOr<std::vector<float>> LlamaEngine::Score(SeqId seq, std::span<const Token> tokens,
                                                      std::span<const Token> targets) {
  if (!IsOpen(seq)) return absl::InvalidArgumentError(fmt::format("unknown sequence {}", seq));
  if (tokens.size() != targets.size()) {
    return absl::InvalidArgumentError(fmt::format("{} tokens but {} targets", tokens.size(), targets.size()));
  }
  RETURN_IF_ERROR(CheckTokens(tokens, facts_.n_vocab));
  RETURN_IF_ERROR(CheckTokens(targets, facts_.n_vocab));
  RETURN_IF_ERROR(CheckCells(static_cast<int64_t>(tokens.size()), CellsFree()));
  const int64_t before = Length(seq);
  const std::size_t batch = static_cast<std::size_t>(std::min(options_.score_batch, limits_.max_batch));
  std::vector<float> nll;
  nll.reserve(tokens.size());
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t n = NextScoreBatch(tokens.size() - at, batch);
    absl::Status status = ScoreBatch(seq, tokens.subspan(at, n), targets.subspan(at, n), nll);
    if (!status.ok()) {
      DropCells(seq, before);
      SetLength(seq, before);
      return status;
    }
    at += n;
  }
  return nll;
}

absl::Status LlamaEngine::ScoreBatch(SeqId seq, std::span<const Token> tokens, std::span<const Token> targets,
                                     std::vector<float>& nll) {
  const int64_t n_past = Length(seq);
  batch_->Clear();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    batch_->Add(seq, n_past + static_cast<int64_t>(i), tokens[i], /*logits=*/true);
  }
  RETURN_IF_ERROR(Decode());
  SetLength(seq, n_past + static_cast<int64_t>(tokens.size()));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const float* logits = llama_get_logits_ith(context_.get(), static_cast<int>(i));
    if (logits == nullptr) return absl::InternalError(fmt::format("llama.cpp has no logits for row {}", i));
    nll.push_back(sampler_->NegativeLogProb(logits, targets[i]));
    if (!std::isfinite(nll.back())) {
      return absl::InternalError(fmt::format("sequence {}: the logits after token {} are not numbers", seq,
                                             n_past + static_cast<int64_t>(i)));
    }
  }
  return absl::OkStatus();
}

}  // namespace riskkv

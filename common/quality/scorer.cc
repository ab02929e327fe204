#include "common/quality/scorer.h"

#include <algorithm>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

// Closes the sequence on every path out.
struct OpenSequence {
  Engine& engine;
  SeqId id;
  ~OpenSequence() { engine.CloseSequence(id); }
};

}  // namespace

absl::StatusOr<KvBlock> WindowScorer::Prefill(std::span<const Token> tokens) {
  ASSIGN_OR_RETURN(const SeqId id, engine_.OpenSequence());
  OpenSequence seq{engine_, id};
  const std::size_t batch = static_cast<std::size_t>(engine_.limits().max_batch);
  for (std::size_t at = 0; at < tokens.size(); at += batch) {
    StepItem item;
    item.seq = id;
    item.n_past = static_cast<int64_t>(at);
    item.tokens = tokens.subspan(at, std::min(batch, tokens.size() - at));
    if (auto step = engine_.Step({&item, 1}); !step.ok()) return step.status();
  }
  return engine_.Export(id, {0, static_cast<int64_t>(tokens.size())},
                        AllLayers(engine_.facts().fingerprint.layout));
}

absl::StatusOr<std::vector<float>> WindowScorer::Score(const KvBlock& cache, const Window& window,
                                                       const WindowShape& shape) {
  const std::size_t cells = static_cast<std::size_t>(HistoryCells(shape)),
                    horizon = static_cast<std::size_t>(shape.horizon);
  if (cache.range.begin != 0 || cache.range.size() != HistoryCells(shape) ||
      window.tokens.size() < static_cast<std::size_t>(shape.length())) {
    return absl::InvalidArgumentError(
        fmt::format("cache of cells [{}, {}) and {} tokens for a window of {} + {}", cache.range.begin,
                    cache.range.end, window.tokens.size(), shape.history, shape.horizon));
  }
  ASSIGN_OR_RETURN(const SeqId id, engine_.OpenSequence());
  OpenSequence seq{engine_, id};
  RETURN_IF_ERROR(engine_.Append(id, cache));
  const std::span<const Token> tokens(window.tokens);
  return engine_.Score(id, tokens.subspan(cells, horizon), tokens.subspan(cells + 1, horizon));
}

double Mean(std::span<const float> values) {
  double sum = 0;
  for (float v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

}  // namespace riskkv

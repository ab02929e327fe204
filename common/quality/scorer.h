// Exact caches and teacher-forced NLL through the real engine, always in the same layout: one sequence, cells
// from 0, fixed batches (environment.md, "Numbers depend on layout"), so that exact and rebuilt caches are
// compared like with like.
#ifndef RISKKV_COMMON_QUALITY_SCORER_H_
#define RISKKV_COMMON_QUALITY_SCORER_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "common/kv/layout.h"
#include "common/quality/windows.h"

namespace riskkv {

// Needs an engine of at least window-length cells that nobody else uses meanwhile. Leaves no sequence open.
class WindowScorer {
 public:
  explicit WindowScorer(Engine& engine) : engine_(engine) {}

  // Cells of all layers of tokens 0 .. n-1, computed natively in batches of the engine's max_batch.
  absl::StatusOr<KvBlock> Prefill(std::span<const Token> tokens);

  // Cells a request of `history` tokens has when it moves: the newest token is sampled but not yet fed.
  static int64_t HistoryCells(const WindowShape& shape) { return shape.history - 1; }

  // -log p(token | all before it), natural logarithm, of each of the horizon tokens: [horizon], nats; `cache`
  // (HistoryCells cells of all layers from position 0) imported into a fresh sequence and the window's own tokens fed:
  // the last history token first.
  absl::StatusOr<std::vector<float>> Score(const KvBlock& cache, const Window& window,
                                           const WindowShape& shape);

 private:
  Engine& engine_;
};

// Arithmetic mean in double precision, 0 for none: of per-token NLLs it is a window's NLL, nats per token.
double Mean(std::span<const float> values);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_SCORER_H_

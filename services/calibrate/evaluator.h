// What a profile of a set costs on a given text.
#ifndef RISKKV_SERVICES_CALIBRATE_EVALUATOR_H_
#define RISKKV_SERVICES_CALIBRATE_EVALUATOR_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "common/predictor/predictor_set.h"
#include "common/quality/articles.h"
#include "common/quality/risk.h"
#include "kernels/backend.h"
#include "nlohmann/json.hpp"
#include "services/calibrate/options.h"

namespace riskkv::calibrate {

struct Evaluation {
  std::string profile;
  double epsilon = 0;
  WindowShape shape;
  int64_t rebuilt_cells = 0;  // of one request; 0: it is no longer than the ends and moves whole
  Measurement measurement;
  double perplexity_exact = 0, perplexity_rebuilt = 0;
  int64_t bytes_full = 0, bytes_sent = 0;  // of one request's history
  int windows_available = 0;
};

// NOT_FOUND (UNKNOWN_PROFILE), FAILED_PRECONDITION (MODEL_MISMATCH ...), INVALID_ARGUMENT for a text without
// one window.
absl::StatusOr<Evaluation> Evaluate(Engine& engine, kernels::Backend& backend, const PredictorSet& set,
                                    const TextFile& text, const EvaluateOptions& options, Progress& progress);

// The same for each of options.histories, or for options.shape.history alone.
absl::StatusOr<std::vector<Evaluation>> EvaluateHistories(Engine& engine, kernels::Backend& backend,
                                                          const PredictorSet& set, const TextFile& text,
                                                          const EvaluateOptions& options, Progress& progress);

// Whether the profile's promise holds on this text: "holds" (Upper-90 within epsilon), "does not hold", "too few windows"
// (fewer than kFewestGateWindows), "no budget" (exact and ungated profiles promise nothing).
std::string GateVerdict(const Evaluation& evaluation);

// The object `riskkv evaluate --json` prints for one history, and for several: {"profile", "by_history": [object ...]}.
nlohmann::json ToJson(const Evaluation& evaluation);
nlohmann::json ToJson(const std::vector<Evaluation>& evaluations);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_EVALUATOR_H_

// A predictor set for tests and for `--engine fake`: every target is a selection of its anchors' features, which the
// fake engine's cache obeys exactly. Same file format as a calibrated set.
#ifndef RISKKV_COMMON_PREDICTOR_SELECTION_SET_H_
#define RISKKV_COMMON_PREDICTOR_SELECTION_SET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "common/predictor/predictor_set.h"

namespace riskkv {

// Fits the selection set of a fake engine from one prefill of its own cache. Profiles: "exact", "risk-0.002" and
// "risk-0.005" (all groups, marked gated), "ungated-safest" (group 0). Probe bounds 0.02. `ends` as given.
absl::StatusOr<std::shared_ptr<const PredictorSet>> MakeSelectionSet(Engine& fake, EndsPolicy ends = {},
                                                                     kernels::WeightType type = kernels::WeightType::kF32);

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_SELECTION_SET_H_

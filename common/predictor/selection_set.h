// A predictor set for tests and for `--engine fake`: every target is a selection of its anchors' features,
// which the fake engine's cache obeys exactly. Same file format as a calibrated set.
#ifndef RISKKV_COMMON_PREDICTOR_SELECTION_SET_H_
#define RISKKV_COMMON_PREDICTOR_SELECTION_SET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "common/predictor/predictor_set.h"

namespace riskkv {

// The selection set of a fake engine's model (engine/fake/fake_model.h, FakePredictor): rebuilds its omitted
// layers bit for bit when the fingerprint says no RoPE. Profiles: "exact", "risk-0.002" (group 0),
// "risk-0.005" (all groups; both marked gated) and "ungated-safest" (group 0). Probe bounds are 0.02 of the
// variance. `scale` other than 1 is a wrong predictor, for tests of the probe.
absl::StatusOr<std::string> SelectionSetBytes(const ModelFacts& fake, EndsPolicy ends = {},
                                              kernels::WeightType type = kernels::WeightType::kF32,
                                              float scale = 1.0f);
absl::StatusOr<std::shared_ptr<const PredictorSet>> MakeSelectionSet(
    const ModelFacts& fake, EndsPolicy ends = {}, kernels::WeightType type = kernels::WeightType::kF32,
    float scale = 1.0f);

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_SELECTION_SET_H_

// Where the demonstration's predictor set comes from, and which of its profiles it moves with.
#ifndef RISKKV_SERVICES_CLI_DEMO_PREDICTORS_H_
#define RISKKV_SERVICES_CLI_DEMO_PREDICTORS_H_

#include <string>

#include "absl/status/statusor.h"
#include "riskkv/v1/calibration.pb.h"
#include "services/cli/demo/narrator.h"
#include "services/cli/demo/options.h"

namespace riskkv::cli {

// A folder with at least one set for the model: the one given, or this model's cache folder; calibrated into
// when it is empty, with coded profiles where the demonstration shows a slow link. `work` is the
// demonstration's folder. CANCELLED when the calibration was interrupted.
absl::StatusOr<std::string> EnsurePredictors(const DemoOptions& options, const std::string& work,
                                             Narrator& narrator);

struct ProfileChoice {
  v1::PredictorSetInfo set;
  v1::ProfileInfo profile;
};

// The gated profile that omits most; without one the ungated one with the smallest mean. NOT_FOUND when no
// set omits anything.
absl::StatusOr<ProfileChoice> ChooseProfile(
    const google::protobuf::RepeatedPtrField<v1::PredictorSetInfo>& sets);

// The gated coded profile that sends least. NOT_FOUND when no set has one.
absl::StatusOr<ProfileChoice> ChooseCodedProfile(const google::protobuf::RepeatedPtrField<v1::PredictorSetInfo>& sets);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_DEMO_PREDICTORS_H_

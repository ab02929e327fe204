// Which predictor set and profile a lossy move would use. Pure.
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_PROFILE_CHOICE_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_PROFILE_CHOICE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/coordinator/core/worker_types.h"

namespace riskkv::coordinator {

struct ProfileWish {
  Mode mode = Mode::kRisk;    // or kCoded: only its profiles are looked at
  std::string predictor_set;  // empty: any
  std::string profile;        // empty: the gated one that omits most, or sends least
  bool allow_ungated = false;
};

struct ProfileChoice {
  SetInfo set;
  ProfileInfo profile;
  bool source_holds = false;
  bool destination_holds = false;
  std::vector<std::string> holders;  // addresses of workers that hold it
};

// Considers the sets that any of `workers` (alive ones) holds and whose fingerprint is the source's; others are ignored. A request
// that was rebuilt before keeps its set and profile. NOT_FOUND: PREDICTOR_MISSING (no such set, or none at all), UNKNOWN_PROFILE;
// FAILED_PRECONDITION (UNKNOWN_PROFILE) for a named profile that passed no gate without allow_ungated.
absl::StatusOr<ProfileChoice> ChooseProfile(const ProfileWish& wish, const WorkerInfo& source, const WorkerInfo& destination,
                                            const std::vector<WorkerInfo>& workers,
                                            const std::vector<ProvenanceInfo>& provenance);

// Bytes of the predictors of a profile's groups.
int64_t PredictorBytes(const SetInfo& set, const ProfileInfo& profile);

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_PROFILE_CHOICE_H_

// SetInfo and Fingerprint as JSON: the text under "riskkv" in a set's __metadata__ (common/README.md).
#ifndef RISKKV_COMMON_PREDICTOR_SET_JSON_H_
#define RISKKV_COMMON_PREDICTOR_SET_JSON_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"
#include "common/predictor/profile.h"
#include "nlohmann/json.hpp"

namespace riskkv {

nlohmann::json ToJson(const Fingerprint& fingerprint);
nlohmann::json ToJson(const RiskStats& stats);
nlohmann::json ToJson(const Profile& profile);
nlohmann::json ToJson(const GroupInfo& group);
nlohmann::json ToJson(const SetInfo& info);

// DATA_LOSS (CORRUPT_FILE) naming the missing or mistyped field. Unknown fields are ignored: a later minor
// version may add some.
absl::StatusOr<Fingerprint> FingerprintFromJson(const nlohmann::json& j);
// Also checks what the rest relies on: groups fit `layout`, profiles name groups that are there and omit
// their targets, every number is finite, "exact" is there.
absl::StatusOr<SetInfo> SetInfoFromJson(const nlohmann::json& j, const KvLayout& layout);
absl::Status CheckSetInfo(const SetInfo& info, const KvLayout& layout);

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_SET_JSON_H_

// Records as versioned JSON: what stores keep. Unknown keys are ignored, absent ones keep their defaults, so that a version
// reads what the one before it wrote; a higher format number is refused.
#ifndef RISKKV_COMMON_MIGRATION_RECORD_JSON_H_
#define RISKKV_COMMON_MIGRATION_RECORD_JSON_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/migration/records.h"
#include "nlohmann/json.hpp"

namespace riskkv {

inline constexpr int kRecordFormat = 1;

nlohmann::json ToJson(const JobSpec& spec);
nlohmann::json ToJson(const Plan& plan);
nlohmann::json ToJson(const absl::Status& status);  // null when OK

std::string Serialise(const OwnerRecord& record);
std::string Serialise(const JobRecord& record);
// DATA_LOSS (CORRUPT_FILE) naming `what`: not JSON, another type of value than expected, unknown names, or a newer format.
absl::StatusOr<OwnerRecord> ParseOwnerRecord(std::string_view text, std::string_view what);
absl::StatusOr<JobRecord> ParseJobRecord(std::string_view text, std::string_view what);

}  // namespace riskkv

#endif  // RISKKV_COMMON_MIGRATION_RECORD_JSON_H_

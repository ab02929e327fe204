// The short names of protocol enums, as people write and read them: MODE_RISK is "RISK".
#ifndef RISKKV_SERVICES_CLI_NAMES_H_
#define RISKKV_SERVICES_CLI_NAMES_H_

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "riskkv/v1/common.pb.h"
#include "riskkv/v1/coordinator.pb.h"
#include "riskkv/v1/generation.pb.h"

namespace riskkv::cli {

// The name without the part every value of its enum shares; an unknown number as its digits.
std::string ShortName(const google::protobuf::EnumDescriptor& descriptor, int number);

inline std::string ShortName(v1::Mode v) { return ShortName(*v1::Mode_descriptor(), v); }
inline std::string ShortName(v1::MigrationState v) { return ShortName(*v1::MigrationState_descriptor(), v); }
inline std::string ShortName(v1::RequestState v) { return ShortName(*v1::RequestState_descriptor(), v); }
inline std::string ShortName(v1::FinishReason v) { return ShortName(*v1::FinishReason_descriptor(), v); }
inline std::string ShortName(v1::Reason v) { return ShortName(*v1::Reason_descriptor(), v); }
inline std::string ShortName(v1::Side v) { return ShortName(*v1::Side_descriptor(), v); }

bool IsTerminal(v1::MigrationState state);

// "risk", "full", ... INVALID_ARGUMENT lists what there is.
absl::StatusOr<v1::Mode> ParseMode(const std::string& name);
// "stay" | "replay" | "fail".
absl::StatusOr<v1::MigrateRequest::OnFailure> ParseOnFailure(const std::string& name);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_NAMES_H_

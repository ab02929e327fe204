// Errors as people and machines read them: what, which thing, both values (they stand in the message), the
// reason's name, and whether the request goes on where it was.
#ifndef RISKKV_SERVICES_CLI_REPORT_ERROR_H_
#define RISKKV_SERVICES_CLI_REPORT_ERROR_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "services/cli/proto_json.h"

namespace riskkv::cli {

Json ErrorJson(const absl::Status& status);
// "error: <message>\n  reason: ...", or one JSON object {"error": {...}}.
void PrintError(std::ostream& out, const absl::Status& status, bool json);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_REPORT_ERROR_H_

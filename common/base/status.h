// Errors: absl::Status everywhere, with a typed detail that crosses process borders (common/net converts it to
// riskkv.v1.ErrorDetail and back).
#ifndef RISKKV_COMMON_BASE_STATUS_H_
#define RISKKV_COMMON_BASE_STATUS_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace riskkv {

// What went wrong, for programs; the status message says it for people. `reason` is one of the names in
// proto/riskkv/v1/common.proto (Reason), without its prefix, e.g. "MODEL_MISMATCH".
struct ErrorDetail {
  std::string reason;
  std::string side;   // "source", "destination", "coordinator", "client" or ""
  std::string stage;  // the migration state it happened in, or ""
  bool retryable = false;
  bool source_still_serving = true;
  bool in_doubt = false;
};

// A status of `code` whose detail carries `reason`.
absl::Status MakeError(absl::StatusCode code, std::string_view reason, std::string_view message);

// Attaches or replaces the detail of a status that is not OK.
void SetDetail(absl::Status& status, const ErrorDetail& detail);
std::optional<ErrorDetail> GetDetail(const absl::Status& status);
// The reason, or "" when there is none.
std::string ReasonOf(const absl::Status& status);
// The same error with the given side and stage filled in where they were empty.
absl::Status WithContext(absl::Status status, std::string_view side, std::string_view stage);
// The same code and detail, message prefixed with "<prefix>: ".
absl::Status Annotate(const absl::Status& status, std::string_view prefix);

}  // namespace riskkv

#define RISKKV_CONCAT_INNER_(a, b) a##b
#define RISKKV_CONCAT_(a, b) RISKKV_CONCAT_INNER_(a, b)

#define RETURN_IF_ERROR(expr)                                  \
  do {                                                         \
    if (absl::Status riskkv_status_ = (expr); !riskkv_status_.ok()) return riskkv_status_; \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) \
  RISKKV_ASSIGN_OR_RETURN_(RISKKV_CONCAT_(riskkv_statusor_, __LINE__), lhs, expr)
#define RISKKV_ASSIGN_OR_RETURN_(statusor, lhs, expr)     \
  auto statusor = (expr);                                 \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = std::move(statusor).value()

#endif  // RISKKV_COMMON_BASE_STATUS_H_

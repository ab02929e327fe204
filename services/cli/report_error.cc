#include "services/cli/report_error.h"

#include "common/base/status.h"
#include "fmt/format.h"
#include "services/cli/exit_code.h"

namespace riskkv::cli {
namespace {

std::string Str(absl::string_view s) { return {s.data(), s.size()}; }

std::string Where(const ErrorDetail& d) {
  if (d.side.empty() && d.stage.empty()) return "";
  if (d.stage.empty()) return fmt::format(" at the {}", d.side);
  if (d.side.empty()) return fmt::format(" in {}", d.stage);
  return fmt::format(" at the {}, in {}", d.side, d.stage);
}

// Only a move has a source; errors without a stage are about something else.
std::string Consequence(const ErrorDetail& d) {
  if (d.in_doubt) return "  the decision is not known yet: ask again with 'riskkv migrations show'\n";
  if (d.stage.empty()) return "";
  return d.source_still_serving ? "  the source goes on serving the request\n"
                                : "  the source does not serve the request\n";
}

}  // namespace

Json ErrorJson(const absl::Status& status) {
  Json j = {{"code", absl::StatusCodeToString(status.code())}, {"message", Str(status.message())}};
  ErrorDetail d = GetDetail(status).value_or(ErrorDetail{});
  j["reason"] = d.reason;
  j["side"] = d.side;
  j["stage"] = d.stage;
  j["retryable"] = d.retryable;
  j["source_still_serving"] = d.source_still_serving;
  j["in_doubt"] = d.in_doubt;
  j["exit_code"] = ExitCodeFor(status);
  return j;
}

void PrintError(std::ostream& out, const absl::Status& status, bool json) {
  if (json) {
    out << Json({{"error", ErrorJson(status)}}).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
    return;
  }
  ErrorDetail d = GetDetail(status).value_or(ErrorDetail{});
  out << "error: " << Str(status.message()) << "\n";
  out << "  reason: " << (d.reason.empty() ? absl::StatusCodeToString(status.code()) : d.reason) << Where(d)
      << (d.retryable ? " (may be tried again)" : "") << "\n";
  out << Consequence(d);
}

}  // namespace riskkv::cli

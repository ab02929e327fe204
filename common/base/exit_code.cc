#include "common/base/exit_code.h"

namespace riskkv {

int ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kResourceExhausted:
      return kExitRefused;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnavailable;
    case absl::StatusCode::kDataLoss:
      return kExitBrokenPromise;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitFailed;
  }
}

std::string ExitCodeHelp() {
  return "Exit codes:\n"
         "  0    done\n"
         "  1    failed for a reason without a code of its own\n"
         "  2    wrong arguments\n"
         "  3    no such request, worker, migration, profile or file\n"
         "  4    refused: a precondition does not hold, no room, not allowed\n"
         "  5    nobody answers, not ready, out of time\n"
         "  6    the migration ended in ABORTED or FAILED\n"
         "  7    a promise did not hold: lost, doubled, differing or corrupt data\n"
         "  130  interrupted (Ctrl-C)\n";
}

}  // namespace riskkv

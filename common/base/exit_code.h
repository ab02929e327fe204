// What the exit codes of every riskkv command mean.
#ifndef RISKKV_COMMON_BASE_EXIT_CODE_H_
#define RISKKV_COMMON_BASE_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"

namespace riskkv {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,         // anything without a code of its own
  kExitUsage = 2,          // wrong arguments, here or found by the service
  kExitNotFound = 3,       // no such request, worker, migration, profile, file
  kExitRefused = 4,        // a precondition does not hold, no room, not allowed
  kExitUnavailable = 5,    // nobody answers, not ready, out of time
  kExitNotMoved = 6,       // the migration ended in ABORTED or FAILED
  kExitBrokenPromise = 7,  // something riskkv promises did not hold: lost, doubled, differing or corrupt data, a damaged file
  kExitInterrupted = 130,  // Ctrl-C
};

// OK is kExitOk.
int ExitCodeFor(const absl::Status& status);
// The table above, for --help.
std::string ExitCodeHelp();

}  // namespace riskkv

#endif  // RISKKV_COMMON_BASE_EXIT_CODE_H_

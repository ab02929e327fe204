// The exit codes of every subcommand: common/base/exit_code.h.
#ifndef RISKKV_SERVICES_CLI_EXIT_CODE_H_
#define RISKKV_SERVICES_CLI_EXIT_CODE_H_

#include "common/base/exit_code.h"

namespace riskkv::cli {

using riskkv::ExitCodeFor;  // migration_text.h has another overload, which would hide it

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_EXIT_CODE_H_

// `riskkv calibrate`, `evaluate` and `inspect`: flags, wiring, exit codes. The command line tool registers
// them.
#ifndef RISKKV_SERVICES_CALIBRATE_COMMANDS_H_
#define RISKKV_SERVICES_CALIBRATE_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "services/calibrate/options.h"

namespace riskkv::calibrate {

// Exit codes of the three commands; the command line tool's table (services/cli/exit_code.h) has the same.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;         // anything not below
inline constexpr int kExitUsage = 2;          // bad flags, bad text, bad layout
inline constexpr int kExitNotFound = 3;       // a file or profile is not there
inline constexpr int kExitRefused = 4;        // another model, another format version, no room on the disk
inline constexpr int kExitDamaged = 7;        // a damaged file
inline constexpr int kExitInterrupted = 130;  // Ctrl-C

int ExitCode(const absl::Status& status);

// Each prints its result on stdout, progress and errors on stderr, and returns the exit code.
int RunCalibrate(const CalibrateOptions& options);
int RunEvaluate(const EvaluateOptions& options);
int RunInspect(const InspectOptions& options);

// Add the subcommand to a tool. When it is parsed, `*exit_code` holds what Run... returned. The int must
// outlive the parse.
void AddCalibrateCommand(CLI::App& app, int* exit_code);
void AddEvaluateCommand(CLI::App& app, int* exit_code);
void AddInspectCommand(CLI::App& app, int* exit_code);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_COMMANDS_H_

// `riskkv calibrate`, `evaluate` and `inspect`: flags, wiring, exit codes. The command line tool registers
// them.
#ifndef RISKKV_SERVICES_CALIBRATE_COMMANDS_H_
#define RISKKV_SERVICES_CALIBRATE_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "common/base/exit_code.h"
#include "services/calibrate/options.h"

namespace riskkv::calibrate {

// Each prints its result on stdout, progress and errors on stderr, and returns the exit code
// (common/base/exit_code.h).
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

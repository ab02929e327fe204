// What the subcommands share: where they write, and how they are registered.
#ifndef RISKKV_SERVICES_CLI_COMMAND_H_
#define RISKKV_SERVICES_CLI_COMMAND_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "common/base/clock.h"

namespace riskkv::cli {

// Lives as long as the program. Add*Command functions register a subcommand whose callback sets `run`.
struct Context {
  std::ostream& out;
  std::ostream& err;
  const Clock& clock;
  std::function<int()> run;  // the chosen subcommand; its value is the exit code
};

// A subcommand with an example in its help and `--json` bound to *json.
CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& description,
                     const std::string& example, bool* json);
// Adds --coordinator (also from the environment, RISKKV_COORDINATOR).
CLI::Option* AddCoordinatorOption(CLI::App& command, std::string* address, bool required);

// Prints the error (as JSON on out, or for people on err) and returns its exit code.
int ReportFailure(Context& context, const absl::Status& status, bool json);

void AddGenerateCommand(CLI::App& app, Context& context);
void AddRequestsCommand(CLI::App& app, Context& context);
void AddWorkersCommand(CLI::App& app, Context& context);
void AddMigrationsCommand(CLI::App& app, Context& context);
void AddMigrateCommand(CLI::App& app, Context& context);
void AddPlanCommand(CLI::App& app, Context& context);
void AddWatchCommand(CLI::App& app, Context& context);
void AddDemoCommand(CLI::App& app, Context& context);
void AddBenchCommand(CLI::App& app, Context& context);
void AddHealthCommand(CLI::App& app, Context& context);
void AddVersionCommand(CLI::App& app, Context& context);

// All of them, with calibrate, evaluate, inspect and demo. Returns the exit code.
int Main(int argc, char** argv, std::ostream& out, std::ostream& err);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_COMMAND_H_

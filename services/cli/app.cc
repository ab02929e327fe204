// The tool's parser and its subcommands.
#include "fmt/format.h"
#include "services/calibrate/commands.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"

namespace riskkv::cli {
namespace {

constexpr char kDescription[] =
    "riskkv moves a running LLM request from one worker to another; its client sees one unbroken stream.\n"
    "Start with 'riskkv demo --help', or see what runs with 'riskkv workers' and 'riskkv requests'.";

// CLI11's own codes are about its exceptions; ours say "wrong arguments". Asking for help is no error.
int ExitParse(const CLI::App& app, const CLI::ParseError& error, std::ostream& out, std::ostream& err) {
  int code = app.exit(error, out, err);
  return code == 0 ? kExitOk : kExitUsage;
}

}  // namespace

int Main(int argc, char** argv, std::ostream& out, std::ostream& err) {
  RealClock clock;
  Context context{out, err, clock, nullptr};
  CLI::App app(kDescription, "riskkv");
  app.require_subcommand(1);
  app.footer(ExitCodeHelp());
  int calibrate_code = kExitOk;
  calibrate::AddCalibrateCommand(app, &calibrate_code);
  calibrate::AddEvaluateCommand(app, &calibrate_code);
  calibrate::AddInspectCommand(app, &calibrate_code);
  AddGenerateCommand(app, context);
  AddRequestsCommand(app, context);
  AddWorkersCommand(app, context);
  AddMigrateCommand(app, context);
  AddPlanCommand(app, context);
  AddWatchCommand(app, context);
  AddMigrationsCommand(app, context);
  AddDemoCommand(app, context);
  AddBenchCommand(app, context);
  AddHealthCommand(app, context);
  AddVersionCommand(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ExitParse(app, error, out, err);
  }
  return context.run ? context.run() : calibrate_code;
}

}  // namespace riskkv::cli

#include "services/cli/command.h"

#include "services/cli/exit_code.h"
#include "services/cli/report_error.h"

namespace riskkv::cli {

CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& description,
                     const std::string& example, bool* json) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer("Example:\n  " + example + "\n\n" + ExitCodeHelp());
  if (json != nullptr)
    command->add_flag("--json", *json, "One JSON object (or one a line) on stdout, for machines");
  return command;
}

CLI::Option* AddCoordinatorOption(CLI::App& command, std::string* address, bool required) {
  CLI::Option* option = command.add_option("--coordinator", *address, "The coordinator's host:port, or several, comma-separated: the one that leads is asked")
                            ->envname("RISKKV_COORDINATOR");
  if (required) option->required();
  return option;
}

int ReportFailure(Context& context, const absl::Status& status, bool json) {
  PrintError(json ? context.out : context.err, status, json);
  return ExitCodeFor(status);
}

}  // namespace riskkv::cli

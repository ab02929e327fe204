// Migrations in words.
#ifndef RISKKV_SERVICES_CLI_MIGRATION_TEXT_H_
#define RISKKV_SERVICES_CLI_MIGRATION_TEXT_H_

#include <string>

#include "riskkv/v1/coordinator.pb.h"

namespace riskkv::cli {

// One line, without its end.
std::string EventLine(const v1::MigrationEvent& event);
// What was chosen why, and a table of the alternatives.
std::string PlanSummary(const v1::Plan& plan);
// The same with what every cost is made of, and the inputs.
std::string PlanText(const v1::Plan& plan);
// One migration in full.
std::string MigrationText(const v1::Migration& migration);
// 0 for SUCCEEDED and STAYED, kExitNotMoved otherwise.
int ExitCodeFor(const v1::Outcome& outcome);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_MIGRATION_TEXT_H_

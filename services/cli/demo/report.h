// The demonstration's result: numbers that were measured, what was promised, what did not hold.
#ifndef RISKKV_SERVICES_CLI_DEMO_REPORT_H_
#define RISKKV_SERVICES_CLI_DEMO_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "services/cli/demo/link_table.h"
#include "services/cli/demo/predictors.h"
#include "services/cli/demo/scenario.h"
#include "services/cli/proto_json.h"

namespace riskkv::cli {

struct DemoResult {
  ProfileChoice choice;
  std::optional<LinkComparison> link;
  MoveReport risk, full;
  std::vector<int32_t> unmoved;  // the FULL move's request, not moved
  // First index at which the FULL move's output differs from the unmoved one; -1 when it does not.
  int64_t FullDifference() const;
};

struct Verdicts {
  std::vector<std::string> broken;  // promises that did not hold, in words; empty when all did
  bool not_moved = false;           // a migration ended otherwise than SUCCEEDED
};

Verdicts Judge(const DemoResult& result);
Json ReportJson(const DemoResult& result);
std::string ReportTable(const DemoResult& result);
// kExitOk, kExitNotMoved or kExitBrokenPromise.
int ExitCodeFor(const Verdicts& verdicts);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_DEMO_REPORT_H_

// `riskkv demo`: see options.h, scenario.h, report.h.
#ifndef RISKKV_SERVICES_CLI_DEMO_DEMO_H_
#define RISKKV_SERVICES_CLI_DEMO_DEMO_H_

#include <ostream>

#include "common/base/clock.h"
#include "services/cli/demo/options.h"

namespace riskkv::cli {

// Runs it and returns the exit code. With options.json one JSON object is all that goes to `out`; the story
// goes to `err`.
int RunDemo(const DemoOptions& options, std::ostream& out, std::ostream& err, const Clock& clock);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_DEMO_DEMO_H_

// bench pause: what a client's pause is made of, by context length.
#ifndef RISKKV_SERVICES_CLI_BENCH_PAUSE_H_
#define RISKKV_SERVICES_CLI_BENCH_PAUSE_H_

#include "services/cli/command.h"

namespace riskkv::cli {

void AddBenchPauseCommand(CLI::App& bench, Context& context);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_BENCH_PAUSE_H_

// What the demonstration does with its cluster: generate, move while it runs, follow as any client would, and
// check.
#ifndef RISKKV_SERVICES_CLI_DEMO_SCENARIO_H_
#define RISKKV_SERVICES_CLI_DEMO_SCENARIO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "riskkv/v1/coordinator.pb.h"
#include "services/cli/demo/cluster.h"
#include "services/cli/demo/narrator.h"

namespace riskkv::cli {

struct MoveSpec {
  int from = 0;  // the cluster's worker it starts on
  std::string prompt;
  int max_tokens = 0;
  int move_after = 0;  // output tokens received before the move is asked for
  v1::Mode mode = v1::MODE_FULL;
  std::string predictor_set, profile;
  bool allow_ungated = false;
  int max_pause_ms = 0;
};

// What the client and the coordinator saw of one moved request.
struct MoveReport {
  v1::Outcome outcome;
  v1::Plan plan;  // what AUTO would do if it must move, asked just before
  std::vector<v1::MigrationEvent> events;
  int64_t prompt_tokens = 0;
  std::vector<int32_t> tokens;
  int64_t tokens_before = 0, tokens_after = 0;  // delivered by the old and the new owner
  int64_t lost = 0, duplicated = 0;             // the client's own count
  double pause_ms = 0;                          // the client's own measure
  double token_ms = 0;                          // its median time between tokens
  bool log_matches = false;                     // the final owner's request log is what the client received
};

// Greedy, from a worker that does nothing else; the tokens.
absl::StatusOr<std::vector<int32_t>> RunUnmoved(const std::string& address, const std::string& prompt,
                                                int max_tokens, const Clock& clock);

// Starts a request on the worker the spec names, has it moved to b and follows it to its end.
absl::StatusOr<MoveReport> RunMove(Cluster& cluster, const MoveSpec& spec, Narrator& narrator,
                                   const Clock& clock);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_DEMO_SCENARIO_H_

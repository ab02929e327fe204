// What a source ships of a token range: blocks, their layers, and their probes. Pure functions.
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_PLAN_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/kv/token_ranges.h"
#include "common/predictor/profile.h"
#include "services/worker/core/move_coded.h"
#include "services/worker/core/move_types.h"

namespace riskkv::worker {

// How this attempt ships cells. kFull ships all layers of everything; in kRisk the body, between the first tokens and the newest, goes
// without the omitted layers, in kCoded coded, and its ends in 8 bits or exactly.
struct ShipPolicy {
  MoveMode mode = MoveMode::kFull;
  KvLayout layout;
  EndsPolicy ends;
  std::vector<int> omitted;
  int probe_tokens = 2;
  uint64_t seed = 0;     // of the probes
  TokenRanges rebuilt;   // kRisk: cells that are not native are not probed
  std::shared_ptr<const CodedMove> coded;  // kCoded
  bool lossy() const { return mode == MoveMode::kRisk || mode == MoveMode::kCoded; }
};

// One block on its way: `cells`, and the probe that belongs to it (no positions: none). Ids, bytes and digests are not yet set.
struct BlockPlan {
  Segment cells;
  Segment probe;
};

// Whether a request of so many cells has a body worth omitting anything of.
bool HasBody(const EndsPolicy& ends, int64_t n_kv);

// Cells below this may be shipped without the omitted layers, or coded, when the request has n_kv cells.
int64_t BodyEnd(const ShipPolicy& policy, int64_t n_kv);

// Blocks that tile [range), cut at kMoveBlockTokens and at the ends of the body [ends.first, body_end).
std::vector<BlockPlan> PlanBlocks(const ShipPolicy& policy, TokenRange range, int64_t body_end);

// The probes of an attempt are a function of (migration, attempt, block): a source that tries again chooses others.
uint64_t ProbeSeed(const Fence& fence);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_PLAN_H_

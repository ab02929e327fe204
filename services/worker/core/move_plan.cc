#include "services/worker/core/move_plan.h"

#include <algorithm>
#include <utility>

#include "common/base/digest.h"
#include "common/codec/coded_probe.h"
#include "common/predictor/rebuild.h"
#include "fmt/format.h"

namespace riskkv::worker {
namespace {

int64_t NextCut(const ShipPolicy& policy, int64_t at, int64_t end, int64_t body_end) {
  int64_t cut = std::min(end, (at / kMoveBlockTokens + 1) * kMoveBlockTokens);
  if (!policy.lossy()) return cut;
  if (at < policy.ends.first) cut = std::min<int64_t>(cut, policy.ends.first);
  if (at < body_end) cut = std::min(cut, std::max<int64_t>(body_end, at + 1));
  return cut;
}

// Native tokens only; a block that has none gets no probe.
std::vector<int64_t> NativeProbe(const ShipPolicy& policy, TokenRange block) {
  const uint64_t seed = policy.seed ^ static_cast<uint64_t>(block.begin);
  std::vector<int64_t> positions;
  for (TokenRange part : policy.rebuilt.Missing(block)) {
    const int want = policy.probe_tokens - static_cast<int>(positions.size());
    for (int64_t p : ProbePositions(part, want, seed)) positions.push_back(p);
  }
  return positions;
}

void PlanRisk(const ShipPolicy& policy, bool body, BlockPlan& block) {
  body = body && !policy.omitted.empty();
  if (body) block.cells.layers = LayersExcept(policy.layout, policy.omitted);
  block.cells.rebuild = body;
  if (!body) return;
  block.probe.positions = NativeProbe(policy, block.cells.range);
  block.probe.layers = policy.omitted;
}

// A coded block is probed whatever its cells are: the bound holds for all of them.
void PlanCoded(const ShipPolicy& policy, bool body, BlockPlan& block) {
  block.cells.encoding = body                                ? CellEncoding::kCoded
                         : policy.coded->profile.int8_ends ? CellEncoding::kInt8
                                                             : CellEncoding::kCanonical;
  if (!body) return;
  const int64_t begin = block.cells.range.begin;
  block.probe.positions = ProbePositions(block.cells.range, policy.probe_tokens, policy.seed ^ static_cast<uint64_t>(begin));
  block.probe.layers = CodedProbeLayers(policy.coded->codec(), policy.coded->policy, policy.seed, begin / kMoveBlockTokens);
}

}  // namespace

bool HasBody(const EndsPolicy& ends, int64_t n_kv) { return n_kv > static_cast<int64_t>(ends.first) + ends.last; }

int64_t BodyEnd(const ShipPolicy& policy, int64_t n_kv) {
  return policy.lossy() ? std::max<int64_t>(0, n_kv - policy.ends.last) : n_kv;
}

std::vector<BlockPlan> PlanBlocks(const ShipPolicy& policy, TokenRange range, int64_t body_end) {
  std::vector<BlockPlan> blocks;
  for (int64_t at = range.begin; at < range.end;) {
    const int64_t end = NextCut(policy, at, range.end, body_end);
    BlockPlan block;
    block.cells.kind = SegmentKind::kCells;
    block.cells.range = {at, end};
    block.cells.layers = AllLayers(policy.layout);
    block.probe.kind = SegmentKind::kProbe;
    const bool body = at >= policy.ends.first && end <= body_end;
    if (policy.mode == MoveMode::kRisk) PlanRisk(policy, body, block);
    if (policy.mode == MoveMode::kCoded) PlanCoded(policy, body, block);
    blocks.push_back(std::move(block));
    at = end;
  }
  return blocks;
}

uint64_t ProbeSeed(const Fence& fence) {
  const std::string name = fmt::format("{}/{}", fence.migration_id, fence.attempt);
  return Xxh3(name.data(), name.size());
}

}  // namespace riskkv::worker

#include "kernels/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/rope.h"

namespace riskkv::kernels {
namespace {

std::string Num(long long value) { return std::to_string(value); }

Status Invalid(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

std::string Layers(const std::vector<int>& layers) {
  std::string out;
  for (int layer : layers) out += (out.empty() ? "" : ", ") + Num(layer);
  return out;
}

bool Positive(float value) { return std::isfinite(value) && value > 0.0f; }

Status CheckRope(const RopeParams& rope, int head_dim) {
  if (rope.pairing == RopePairing::kNone) return Status();
  if (rope.rotary_dim <= 0 || rope.rotary_dim % 2 != 0 || rope.rotary_dim > head_dim) {
    return Invalid("rotary_dim is " + Num(rope.rotary_dim) + ", must be even, above 0 and at most head_dim " +
                   Num(head_dim));
  }
  if (!Positive(rope.freq_base)) {
    return Invalid("freq_base is " + std::to_string(rope.freq_base) + ", must be finite and above 0");
  }
  if (!Positive(rope.freq_scale)) {
    return Invalid("freq_scale is " + std::to_string(rope.freq_scale) + ", must be finite and above 0");
  }
  const std::size_t half = static_cast<std::size_t>(rope.rotary_dim) / 2;
  if (!rope.freq_factors.empty() && rope.freq_factors.size() != half) {
    return Invalid("freq_factors has " + Num(rope.freq_factors.size()) + " entries, rotary_dim " +
                   Num(rope.rotary_dim) + " needs " + Num(half));
  }
  for (std::size_t i = 0; i < rope.freq_factors.size(); ++i) {
    if (Positive(rope.freq_factors[i])) continue;
    return Invalid("freq_factors[" + Num(i) + "] is " + std::to_string(rope.freq_factors[i]) +
                   ", must be finite and above 0");
  }
  return Status();
}

Status CheckLayers(const GroupWeights& group, const std::string& name) {
  if (group.anchors.empty() || group.targets.empty()) {
    return Invalid(name + " has " + Num(group.anchors.size()) + " anchors and " + Num(group.targets.size()) +
                   " targets, needs at least one of each");
  }
  std::vector<int> all = group.anchors;
  all.insert(all.end(), group.targets.begin(), group.targets.end());
  std::sort(all.begin(), all.end());
  if (all.front() < 0) return Invalid(name + " names layer " + Num(all.front()) + ", layers count from 0");
  const auto twice = std::adjacent_find(all.begin(), all.end());
  if (twice != all.end()) {
    return Invalid(name + " names layer " + Num(*twice) + " twice (anchors " + Layers(group.anchors) + "; targets " +
                   Layers(group.targets) + ")");
  }
  return Status();
}

Status CheckGroup(const GroupWeights& group, std::size_t index, int kv, GroupShape* shape) {
  const std::string name = "group " + Num(index);
  if (Status status = CheckLayers(group, name); !status.ok()) return status;
  if (group.b == nullptr || group.bias == nullptr) {
    return Invalid(name + " has no " + (group.b == nullptr ? "weights (b" : "bias (bias") + " is null)");
  }
  const long long d_in = 2LL * kv * static_cast<long long>(group.anchors.size());
  const long long d_out = 2LL * kv * static_cast<long long>(group.targets.size());
  // One limit keeps every index of one group's matrix inside 31 bits, which BLAS and the kernels count in.
  if (d_in * d_out > std::numeric_limits<int>::max()) {
    return Invalid(name + " has a " + Num(d_in) + " x " + Num(d_out) + " matrix, more than " +
                   Num(std::numeric_limits<int>::max()) + " elements");
  }
  *shape = GroupShape{group.anchors, group.targets, static_cast<int>(d_in), static_cast<int>(d_out)};
  return Status();
}

Status CheckPointers(const RebuildJob& job, const GroupShape& group, const std::string& name) {
  struct List {
    const char* what;
    std::size_t got, want;
  };
  const List lists[] = {{"anchor_k", job.anchor_k.size(), group.anchors.size()},
                        {"anchor_v", job.anchor_v.size(), group.anchors.size()},
                        {"target_k", job.target_k.size(), group.targets.size()},
                        {"target_v", job.target_v.size(), group.targets.size()}};
  for (const List& list : lists) {
    if (list.got == list.want) continue;
    return Invalid(name + ": " + list.what + " has " + Num(list.got) + " layers, group " + Num(job.group) + " needs " +
                   Num(list.want));
  }
  const auto null = [](const auto* row) { return row == nullptr; };
  const bool missing = std::any_of(job.anchor_k.begin(), job.anchor_k.end(), null) ||
                       std::any_of(job.anchor_v.begin(), job.anchor_v.end(), null) ||
                       std::any_of(job.target_k.begin(), job.target_k.end(), null) ||
                       std::any_of(job.target_v.begin(), job.target_v.end(), null);
  return missing ? Invalid(name + ": a row pointer is null") : Status();
}

Status CheckPositions(const RebuildJob& job, const std::string& name) {
  if (job.positions == nullptr) return Invalid(name + ": positions is null for " + Num(job.n_tokens) + " tokens");
  if (job.positions[0] < 0) {
    return Invalid(name + ": positions[0] is " + Num(job.positions[0]) + ", must not be negative");
  }
  for (int t = 1; t < job.n_tokens; ++t) {
    if (job.positions[t] > job.positions[t - 1]) continue;
    return Invalid(name + ": positions[" + Num(t) + "] is " + Num(job.positions[t]) + " after " +
                   Num(job.positions[t - 1]) + ", must ascend");
  }
  return Status();
}

}  // namespace

Status CheckHeads(int n_head_kv, int head_dim, const RopeParams& rope, HeadShape* shape) {
  constexpr int kMaxKv = 1 << 20;
  const long long kv = static_cast<long long>(n_head_kv) * head_dim;
  if (n_head_kv <= 0 || head_dim <= 0 || kv > kMaxKv) {
    return Invalid("n_head_kv is " + Num(n_head_kv) + " and head_dim " + Num(head_dim) +
                   ", both must be above 0 and their product at most " + Num(kMaxKv));
  }
  if (Status status = CheckRope(rope, head_dim); !status.ok()) return status;
  *shape = HeadShape{n_head_kv, head_dim, static_cast<int>(kv), rope.pairing, 0};
  if (rope.pairing != RopePairing::kNone) shape->rotary_dim = rope.rotary_dim;
  return Status();
}

Status CheckSet(const PredictorSetView& view, SetShape* shape) {
  if (Status status = CheckHeads(view.n_head_kv, view.head_dim, view.rope, shape); !status.ok()) return status;
  if (view.groups.empty()) return Invalid("the predictor set has no groups");
  shape->groups.resize(view.groups.size());
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    Status status = CheckGroup(view.groups[g], g, shape->kv, &shape->groups[g]);
    if (!status.ok()) return status;
  }
  return Status();
}

Status CheckJob(const RebuildJob& job, const SetShape& shape, std::size_t index) {
  const std::string name = "job " + Num(index);
  if (job.group < 0 || static_cast<std::size_t>(job.group) >= shape.groups.size()) {
    return Invalid(name + " asks for group " + Num(job.group) + ", set " + Num(job.set) + " has " +
                   Num(shape.groups.size()));
  }
  if (job.n_tokens < 0) return Invalid(name + " has " + Num(job.n_tokens) + " tokens, must not be negative");
  if (job.n_tokens == 0) return Status();
  if (Status status = CheckPointers(job, shape.groups[job.group], name); !status.ok()) return status;
  return CheckPositions(job, name);
}

void AppendTiles(const RebuildJob& job, std::size_t index, std::vector<Tile>* tiles) {
  int first = 0;
  for (int t = 0; t < job.n_tokens; ++t) {
    const int32_t start = TileStart(job.positions[t]);
    if (t + 1 < job.n_tokens && TileStart(job.positions[t + 1]) == start) continue;
    tiles->push_back(Tile{index, first, t + 1 - first, start});
    first = t + 1;
  }
}

Status NonFiniteError(const SetShape& shape, int group, int column, int32_t position) {
  const GroupShape& g = shape.groups[group];
  const int part = column / shape.kv % 2;
  const int element = column % shape.kv;
  return Status(Code::kInternal, "group " + Num(group) + ": the rebuilt " + (part == kPartKey ? "key" : "value") +
                                     " of layer " + Num(g.targets[column / (2 * shape.kv)]) + " at position " +
                                     Num(position) + " is not finite in fp16 (head " + Num(element / shape.head_dim) +
                                     ", element " + Num(element % shape.head_dim) + ")");
}

Status UnknownSetError(SetHandle handle) { return Status(Code::kNotFound, "no predictor set " + Num(handle)); }

}  // namespace riskkv::kernels

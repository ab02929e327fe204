#include "common/codec/plan.h"

#include <algorithm>

#include "fmt/format.h"

namespace riskkv {
namespace {

constexpr int kPeriod = 4;

// Layers coded together and the indices of the sets they are predicted from.
struct LayerSet {
  std::vector<int> layers;
  std::vector<int> conditions;
};

std::vector<LayerSet> LayerSets(int n_layer) {
  std::vector<LayerSet> sets;
  for (int l = 0; l + 1 < n_layer; l += kPeriod) {
    const int before = static_cast<int>(sets.size()) - 1;
    sets.push_back({{l, l + 1}, before < 0 ? std::vector<int>{} : std::vector<int>{before}});
  }
  const int anchors = static_cast<int>(sets.size());
  for (int a = 0; a + 1 < anchors; ++a) {
    const int l = kPeriod * a + 2;
    sets.push_back({{l, l + 1}, {a, a + 1}});
  }
  int before = anchors - 1;
  for (int l = anchors > 0 ? kPeriod * (anchors - 1) + 2 : 0; l < n_layer; l += 2) {
    LayerSet rest{{l}, before < 0 ? std::vector<int>{} : std::vector<int>{before}};
    if (l + 1 < n_layer) rest.layers.push_back(l + 1);
    before = static_cast<int>(sets.size());
    sets.push_back(std::move(rest));
  }
  return sets;
}

}  // namespace

CodedPlan PairPlan(int n_layer) {
  CodedPlan plan;
  for (const LayerSet& set : LayerSets(n_layer)) {
    CodedUnit unit;
    for (int l : set.layers) {
      unit.planes.push_back({l, kPartK});
      unit.planes.push_back({l, kPartV});
    }
    unit.conditions = set.conditions;
    plan.push_back(std::move(unit));
  }
  return plan;
}

CodedPlan SplitPlan(int n_layer) {
  CodedPlan plan;
  for (const LayerSet& set : LayerSets(n_layer)) {
    CodedUnit keys, values;
    for (int l : set.layers) {
      keys.planes.push_back({l, kPartK});
      values.planes.push_back({l, kPartV});
    }
    for (int c : set.conditions) {
      keys.conditions.push_back(2 * c);
      keys.conditions.push_back(2 * c + 1);
    }
    values.conditions = keys.conditions;
    values.conditions.push_back(static_cast<int>(plan.size()));
    plan.push_back(std::move(keys));
    plan.push_back(std::move(values));
  }
  return plan;
}

absl::Status CheckPlan(const CodedPlan& plan, int n_layer) {
  std::vector<int> seen(2 * static_cast<std::size_t>(std::max(n_layer, 0)));
  for (std::size_t u = 0; u < plan.size(); ++u) {
    if (plan[u].planes.empty()) return absl::InvalidArgumentError(fmt::format("coded unit {} is empty", u));
    for (const CachePlane& p : plan[u].planes) {
      if (p.layer < 0 || p.layer >= n_layer || (p.part != kPartK && p.part != kPartV)) {
        return absl::InvalidArgumentError(
            fmt::format("coded unit {}: no plane {} of layer {} in a model of {} layers", u, p.part, p.layer,
                        n_layer));
      }
      if (++seen[2 * static_cast<std::size_t>(p.layer) + p.part] > 1) {
        return absl::InvalidArgumentError(
            fmt::format("coded unit {}: plane {} of layer {} is coded twice", u, p.part, p.layer));
      }
    }
    int last = -1;
    for (int c : plan[u].conditions) {
      if (c <= last || c >= static_cast<int>(u)) {
        return absl::InvalidArgumentError(
            fmt::format("coded unit {}: condition {} is not an earlier unit in order", u, c));
      }
      last = c;
    }
  }
  const auto missing = std::find(seen.begin(), seen.end(), 0);
  if (missing == seen.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("layer {} has a plane that no unit codes", (missing - seen.begin()) / 2));
}

int ConditionWidth(const CodedPlan& plan, const CodedUnit& unit, int kv) {
  int width = 0;
  for (int c : unit.conditions) width += UnitWidth(plan[static_cast<std::size_t>(c)], kv);
  return width;
}

}  // namespace riskkv

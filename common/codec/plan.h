// Which rows of a cache are coded together, and from which decoded ones they are predicted (design.md 2,
// "Coded profiles").
#ifndef RISKKV_COMMON_CODEC_PLAN_H_
#define RISKKV_COMMON_CODEC_PLAN_H_

#include <vector>

#include "absl/status/status.h"

namespace riskkv {

enum CachePart : int { kPartK = 0, kPartV = 1 };

// K (before RoPE) or V of one layer: kv columns.
struct CachePlane {
  int layer = 0;
  int part = kPartK;
  bool operator==(const CachePlane&) const = default;
};

// Planes that share one transform. Its columns are the planes' side by side, kv each.
struct CodedUnit {
  std::vector<CachePlane> planes;
  std::vector<int> conditions;  // earlier units it is predicted from, ascending; none: from its mean
  bool operator==(const CodedUnit&) const = default;
};

// Units in the order of coding.
using CodedPlan = std::vector<CodedUnit>;

// The paper's layout A A T T ... A A: every anchor pair from the pair before it, every target pair from the
// two anchor pairs around it. Layers after the last anchor pair go in pairs, each from the pair before.
// K and V of a pair are one unit.
CodedPlan PairPlan(int n_layer);

// The same with two units a pair: K, then V given that K too. The steps of K and V are then free of each
// other, and the products are a tenth smaller.
CodedPlan SplitPlan(int n_layer);

// INVALID_ARGUMENT naming the unit unless every plane of the model is in exactly one unit and conditions are
// earlier units, ascending.
absl::Status CheckPlan(const CodedPlan& plan, int n_layer);

inline int UnitWidth(const CodedUnit& unit, int kv) { return kv * static_cast<int>(unit.planes.size()); }
// Columns of all its conditions.
int ConditionWidth(const CodedPlan& plan, const CodedUnit& unit, int kv);

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_PLAN_H_

// Which layers are omitted and which predict them: design.md 2, "Groups". Layouts are data, not code.
#ifndef RISKKV_COMMON_PREDICTOR_LAYOUT_GROUPS_H_
#define RISKKV_COMMON_PREDICTOR_LAYOUT_GROUPS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace riskkv {

// One layer group: `targets` may be omitted, `anchors` stay and predict them. Both ascending.
struct GroupSpec {
  std::vector<int> anchors;
  std::vector<int> targets;
  bool operator==(const GroupSpec&) const = default;
};

// The paper's layout: A A T T A A T T ... A A. G = floor((n_layer - 2) / 4) groups (none below six layers);
// group g has anchors 4g, 4g+1, 4g+4, 4g+5 and targets 4g+2, 4g+3.
std::vector<GroupSpec> PeriodFourGroups(int n_layer);

// INVALID_ARGUMENT naming the group unless every layer is within [0, n_layer), lists are ascending and not
// empty, no layer is a target twice, and no target of any group is an anchor of any (anchors are always
// shipped).
absl::Status CheckGroups(const std::vector<GroupSpec>& groups, int n_layer);

// A layout from a file: {"name": "...", "groups": [{"anchors": [...], "targets": [...]}, ...]}. Checked.
struct GroupLayout {
  std::string name;
  std::vector<GroupSpec> groups;
};
absl::StatusOr<GroupLayout> ReadGroupLayout(const std::string& path, int n_layer);

// A layout by name, for a model of n_layer layers; any other name is a file's (ReadGroupLayout).
//   paper          PeriodFourGroups: A A T T A A T T ... A A
//   one-anchor     one anchor a side: A T T A T T ... A
//   runs-of-three  A A T T T A A T T T ... A A
//   all-anchors    the paper's targets, each predicted from the anchors of all its groups
// FAILED_PRECONDITION when the model has too few layers for one group.
absl::StatusOr<GroupLayout> MakeGroupLayout(const std::string& name_or_path, int n_layer);

// Width of the features and of the prediction of one group, kv = n_head_kv * head_dim.
inline int InputWidth(const GroupSpec& g, int kv) { return 2 * kv * static_cast<int>(g.anchors.size()); }
inline int OutputWidth(const GroupSpec& g, int kv) { return 2 * kv * static_cast<int>(g.targets.size()); }

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_LAYOUT_GROUPS_H_

#include "common/predictor/profile.h"

#include <algorithm>

namespace riskkv {

const char* TransferModeName(TransferMode mode) { return mode == TransferMode::kRisk ? "RISK" : "FULL"; }

std::vector<int> TargetsOf(const std::vector<GroupInfo>& groups, const std::vector<int>& selected) {
  std::vector<int> targets;
  for (int g : selected) {
    const std::vector<int>& t = groups.at(g).spec.targets;
    targets.insert(targets.end(), t.begin(), t.end());
  }
  std::sort(targets.begin(), targets.end());
  return targets;
}

Profile ExactProfile(const EndsPolicy& ends) {
  Profile profile;
  profile.name = "exact";
  profile.ends = ends;
  return profile;
}

}  // namespace riskkv

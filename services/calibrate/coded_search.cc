#include "services/calibrate/coded_search.h"

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::calibrate {

absl::StatusOr<const CodedPoint*> CodedSearch::Select(int at) {
  const auto found = measured_.find(at);
  if (found != measured_.end()) return &found->second;
  CodedPoint point;
  point.promised = path_[static_cast<std::size_t>(at)];
  point.profile.name = fmt::format("{:.0f} bytes a token", point.promised.bytes);
  point.profile.steps = point.promised.steps;
  point.profile.ends = ends_;
  ASSIGN_OR_RETURN(point.select, select_.Measure(codec_, point.profile));
  point.profile.select = point.select.stats;
  point.profile.times_fewer = point.select.times_fewer();
  return &measured_.emplace(at, std::move(point)).first->second;
}

absl::StatusOr<bool> CodedSearch::Confirms(int at, double epsilon) {
  if (confirm_ == nullptr) return true;
  CodedProfile& profile = measured_.at(at).profile;
  if (profile.confirm.windows == 0) {
    ASSIGN_OR_RETURN(const CodedMeasurement m, confirm_->Measure(codec_, profile));
    profile.confirm = m.stats;
  }
  return Admissible(Gate::kUpper90, epsilon, profile.confirm, nullptr);
}

absl::StatusOr<std::optional<CodedProfile>> CodedSearch::Coarsest(double epsilon) {
  int admitted = -1, refused = static_cast<int>(path_.size());
  while (refused - admitted > 1) {
    const int middle = admitted + (refused - admitted) / 2;
    ASSIGN_OR_RETURN(const CodedPoint* point, Select(middle));
    (Admissible(Gate::kUpper90, epsilon, point->select.stats, nullptr) ? admitted : refused) = middle;
  }
  for (int at = admitted; at >= 0; --at) {
    ASSIGN_OR_RETURN(const CodedPoint* point, Select(at));
    if (!Admissible(Gate::kUpper90, epsilon, point->select.stats, nullptr)) continue;
    ASSIGN_OR_RETURN(const bool confirmed, Confirms(at, epsilon));
    if (!confirmed) continue;
    CodedProfile p = measured_.at(at).profile;
    p.name = CodedProfileName(epsilon);
    p.epsilon = epsilon;
    p.gated = true;
    p.gate = GateName(confirm_ != nullptr ? Gate::kStableSplit : Gate::kUpper90);
    return p;
  }
  return std::nullopt;
}

std::vector<CodedPoint> CodedSearch::Measured() const {
  std::vector<CodedPoint> points;
  for (auto at = measured_.rbegin(); at != measured_.rend(); ++at) points.push_back(at->second);
  return points;
}

}  // namespace riskkv::calibrate

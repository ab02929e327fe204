#include "common/quality/path.h"

#include <algorithm>
#include <numeric>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {

std::vector<int> OrderByRisk(const std::vector<double>& risk, const std::vector<int64_t>& bytes_saved) {
  std::vector<int> order(risk.size());
  std::iota(order.begin(), order.end(), 0);
  auto rate = [&](int g) {
    return risk[static_cast<std::size_t>(g)] / static_cast<double>(bytes_saved[static_cast<std::size_t>(g)]);
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rate(a) < rate(b); });
  return order;
}

absl::StatusOr<RiskPath> FollowPath(const std::vector<int64_t>& bytes_saved, const EvaluateFn& evaluate) {
  RiskPath path;
  std::vector<double> risk;
  for (std::size_t g = 0; g < bytes_saved.size(); ++g) {
    Candidate single{{static_cast<int>(g)}, bytes_saved[g], {}};
    ASSIGN_OR_RETURN(single.select, evaluate(single.groups));
    risk.push_back(single.select.mean);
    path.singles.push_back(std::move(single));
  }
  path.order = OrderByRisk(risk, bytes_saved);
  Candidate prefix;
  for (int g : path.order) {
    prefix.groups.push_back(g);
    std::sort(prefix.groups.begin(), prefix.groups.end());
    prefix.bytes_saved += bytes_saved[static_cast<std::size_t>(g)];
    if (prefix.groups.size() == 1) {
      prefix.select = path.singles[static_cast<std::size_t>(g)].select;
    } else {
      ASSIGN_OR_RETURN(prefix.select, evaluate(prefix.groups));
    }
    path.prefixes.push_back(prefix);
  }
  return path;
}

const char* GateName(Gate gate) {
  switch (gate) {
    case Gate::kMean:
      return "mean";
    case Gate::kUpper90:
      return "upper90";
    case Gate::kStableSplit:
      return "stable-split";
  }
  return "unknown";
}

bool Admissible(Gate gate, double epsilon, const RiskStats& select, const RiskStats* confirm) {
  if (select.windows < kFewestGateWindows) return false;
  if (gate == Gate::kMean) return select.mean <= epsilon;
  if (!(select.upper90 <= epsilon)) return false;
  if (gate == Gate::kUpper90) return true;
  return confirm != nullptr && confirm->windows >= kFewestGateWindows && confirm->upper90 <= epsilon;
}

absl::StatusOr<int> SelectCandidate(Gate gate, double epsilon, const std::vector<Candidate>& candidates,
                                    const EvaluateFn& confirm) {
  std::vector<int> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  auto at = [&](int i) -> const Candidate& { return candidates[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (at(a).bytes_saved != at(b).bytes_saved) return at(a).bytes_saved > at(b).bytes_saved;
    return at(a).select.mean < at(b).select.mean;
  });
  for (int i : order) {
    const Gate first = gate == Gate::kStableSplit ? Gate::kUpper90 : gate;
    if (!Admissible(first, epsilon, at(i).select, nullptr)) continue;
    if (gate != Gate::kStableSplit) return i;
    ASSIGN_OR_RETURN(const RiskStats confirmed, confirm(at(i).groups));
    if (Admissible(gate, epsilon, at(i).select, &confirmed)) return i;
  }
  return -1;
}

std::string ProfileName(double epsilon) { return fmt::format("risk-{:g}", epsilon); }

}  // namespace riskkv

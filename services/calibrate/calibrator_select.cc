// Risks, path, probe bounds and gates of one layout: see calibrator.h.
#include <algorithm>

#include "common/base/status.h"
#include "common/quality/probe_bounds.h"
#include "fmt/format.h"
#include "services/calibrate/calibrator_work.h"

namespace riskkv::calibrate {
namespace {

// The errors of one window: kept, or measured and kept.
absl::StatusOr<TokenErrors> KeptTokenErrors(ResultStore& store, kernels::Backend& backend, kernels::SetHandle handle,
                                            const PredictorSet& set, const EndsPolicy& ends, RiskMeter& meter,
                                            std::size_t window) {
  const std::string key = ResultKey("probe", fmt::format("{} | {} {}/{}", meter.window_id(window), set.digest(), ends.first,
                                                         ends.last));
  TokenErrors errors;
  errors.range = RebuiltRange(ends, WindowScorer::HistoryCells(meter.windows().shape));
  for (const GroupInfo& g : set.groups())
    errors.layers.insert(errors.layers.end(), g.spec.targets.begin(), g.spec.targets.end());
  std::sort(errors.layers.begin(), errors.layers.end());
  const std::size_t count = static_cast<std::size_t>(errors.range.size()) * errors.stride();
  if (auto kept = GetFloats(store, key, count); kept.ok()) {
    errors.values = *std::move(kept);
    return errors;
  }
  ASSIGN_OR_RETURN(const KvBlock exact, meter.ExactCells(window));
  ASSIGN_OR_RETURN(errors, MeasureTokenErrors(backend, handle, set, ends, exact));
  RETURN_IF_ERROR(PutFloats(store, key, errors.values));
  return errors;
}

}  // namespace

absl::StatusOr<RiskStats> Calibrator::Measure(LayoutRun& layout, RiskMeter& meter, MeasurementMap& into,
                                              const std::vector<int>& groups) {
  const Profile profile = CandidateProfile(*layout.trial, groups, options_.ends);
  ASSIGN_OR_RETURN(Measurement m, meter.Measure(backend_, layout.uploaded->handle(), *layout.trial, profile));
  const RiskStats stats = m.stats;
  into[GroupsKey(groups)] = std::move(m);
  return stats;
}

absl::Status Calibrator::Select(Work& work, LayoutRun& layout) {
  RETURN_IF_ERROR(work.select_meter->Prepare());
  std::vector<int64_t> bytes;
  for (const GroupSpec& g : layout.groups) {
    bytes.push_back(engine_.facts().fingerprint.layout.bytes_per_token_layer() *
                    static_cast<int64_t>(g.targets.size()));
  }
  auto evaluate = [&](const std::vector<int>& groups) {
    return Measure(layout, *work.select_meter, layout.select, groups);
  };
  ASSIGN_OR_RETURN(layout.path, FollowPath(bytes, evaluate));
  for (std::size_t g = 0; g < layout.info.groups.size(); ++g)
    layout.info.groups[g].risk = layout.path.singles[g].select;
  return absl::OkStatus();
}

absl::Status Calibrator::Probe(Work& work, LayoutRun& layout) {
  layout.info.probe.margin = options_.probe_margin;
  std::vector<TokenErrors> errors;
  progress_.Begin("probe bounds", 0);
  for (std::size_t i = 0; i < work.select.windows.size(); ++i) {
    RETURN_IF_ERROR(progress_.Check());
    ASSIGN_OR_RETURN(TokenErrors e, KeptTokenErrors(*work.store, backend_, layout.uploaded->handle(), *layout.trial,
                                                    options_.ends, *work.select_meter, i));
    errors.push_back(std::move(e));
  }
  return SetProbeBounds(errors, layout.info.probe, options_.seed, layout.info.groups);
}

absl::Status Calibrator::Admit(Work& work, LayoutRun& layout) {
  const std::vector<Candidate>& candidates = layout.path.prefixes;
  const Gate gate = work.confirm_meter ? Gate::kStableSplit : Gate::kUpper90;
  auto confirm = [&](const std::vector<int>& groups) {
    return Measure(layout, *work.confirm_meter, layout.confirm, groups);
  };
  for (double epsilon : options_.epsilons) {
    ASSIGN_OR_RETURN(const int chosen, SelectCandidate(gate, epsilon, candidates, confirm));
    if (chosen < 0) {
      layout.budgets.push_back({epsilon, "exact", gate, {}});
    } else {
      layout.budgets.push_back(
          {epsilon, ProfileName(epsilon), gate, candidates[static_cast<std::size_t>(chosen)].groups});
    }
  }
  return absl::OkStatus();
}

// What was admitted, into the set's description.
void Calibrator::AddProfiles(LayoutRun& layout) {
  auto confirmed = [&](const std::vector<int>& groups) {
    const auto it = layout.confirm.find(GroupsKey(groups));
    return it == layout.confirm.end() ? RiskStats{} : it->second.stats;
  };
  bool any = false;
  for (const BudgetResult& budget : layout.budgets) {
    if (budget.groups.empty()) continue;
    any = true;
    Profile p = CandidateProfile(*layout.trial, budget.groups, options_.ends);
    p.name = budget.profile;
    p.epsilon = budget.epsilon;
    p.gated = true;
    p.gate = GateName(budget.gate);
    p.select = layout.select.at(GroupsKey(budget.groups)).stats;
    p.confirm = confirmed(budget.groups);
    layout.info.profiles[p.name] = p;
  }
  for (const Candidate& c : layout.path.prefixes)
    layout.info.path.push_back({c.groups, c.select, confirmed(c.groups)});
  if (any) return;
  const Candidate& safest = layout.path.singles[static_cast<std::size_t>(layout.path.order.front())];
  Profile p = CandidateProfile(*layout.trial, safest.groups, options_.ends);
  p.name = "ungated-safest";
  p.select = safest.select;
  layout.info.profiles[p.name] = p;
}

}  // namespace riskkv::calibrate

// What a report has beside the calibration: every prefix on the held windows, rivals, weight types, layouts, Table II.
#include <algorithm>

#include "common/base/status.h"
#include "fmt/format.h"
#include "services/calibrate/calibrator_work.h"
#include "services/calibrate/frontier.h"

namespace riskkv::calibrate {
namespace {

std::vector<PairedDelta> DeltasOf(const Measurement& m) {
  std::vector<PairedDelta> deltas;
  for (const WindowNll& w : m.windows) deltas.push_back({w.article, w.delta()});
  return deltas;
}

// The largest topology that a budget got; all groups of the path when none got any.
std::vector<int> LargestAdmitted(const RiskPath& path, const std::vector<BudgetResult>& budgets) {
  std::vector<int> groups;
  for (const BudgetResult& b : budgets) {
    if (b.groups.size() > groups.size()) groups = b.groups;
  }
  return groups.empty() ? path.prefixes.back().groups : groups;
}

}  // namespace

absl::Status Calibrator::Compare(const Splits& splits, Work& work) {
  LayoutRun& layout = work.layouts.front();
  Comparison& comparison = work.result.comparison;
  RiskMeter& meter = work.confirm_meter ? *work.confirm_meter : *work.select_meter;
  comparison.split = work.confirm_meter ? "confirm" : "select";
  RETURN_IF_ERROR(ComparePolicies(work, layout, meter));
  RETURN_IF_ERROR(CompareDtypes(work, layout, meter));
  if (work.confirm_meter) {
    std::vector<TrialCandidate> candidates;
    for (const Candidate& c : layout.path.prefixes) {
      candidates.push_back({c.bytes_saved, DeltasOf(layout.select.at(GroupsKey(c.groups))),
                            DeltasOf(layout.confirm.at(GroupsKey(c.groups)))});
    }
    comparison.trials = TryGates(candidates, options_.epsilons, engine_.facts().fingerprint.layout.bytes_per_token(),
                                 {options_.trials, 400, options_.seed});
  }
  RETURN_IF_ERROR(CompareHistories(work.confirm_meter ? *splits.confirm : splits.select, work, layout));
  return CompareLayouts(work);
}

absl::Status Calibrator::ComparePolicies(Work& work, LayoutRun& layout, RiskMeter& meter) {
  MeasurementMap& measured = work.confirm_meter ? layout.confirm : layout.select;
  std::vector<std::vector<int>> path, admitted;
  for (const Candidate& c : layout.path.prefixes) {
    if (absl::StatusOr<RiskStats> stats = Measure(layout, meter, measured, c.groups); !stats.ok()) return stats.status();
    path.push_back(c.groups);
  }
  for (const BudgetResult& b : layout.budgets) admitted.push_back(b.groups);
  const PolicyContext context{backend_,
                              layout.uploaded->handle(),
                              *layout.trial,
                              {options_.ends, false},
                              WindowScorer::HistoryCells(options_.shape)};
  ASSIGN_OR_RETURN(work.result.comparison.policies,
                   MeasureFrontier({meter, *work.store, context, path, Landmarks(path, admitted), work.coded.get()}));
  return absl::OkStatus();
}

// The largest admitted topology (all groups, when none was) with weights of both types.
absl::Status Calibrator::CompareDtypes(Work& work, LayoutRun& layout, RiskMeter& meter) {
  const std::vector<int> groups = LargestAdmitted(layout.path, layout.budgets);
  for (const char* dtype : {"fp32", "fp16"}) {
    ASSIGN_OR_RETURN(std::string bytes, SerializePredictorSet(engine_.facts().fingerprint, layout.trial->info(),
                                                              layout.tensors, WeightTypeOf(dtype)));
    ASSIGN_OR_RETURN(const auto set, PredictorSet::FromBytes(std::move(bytes), fmt::format("the set in {}", dtype)));
    ASSIGN_OR_RETURN(const auto uploaded, UploadedSet::Create(backend_, *set));
    ASSIGN_OR_RETURN(Measurement m, meter.Measure(backend_, uploaded->handle(), *set,
                                                  CandidateProfile(*set, groups, options_.ends)));
    work.result.comparison.dtypes.push_back({dtype, groups, std::move(m)});
  }
  return absl::OkStatus();
}

absl::Status Calibrator::CompareHistories(const TextFile& text, Work& work, LayoutRun& layout) {
  const KvLayout& shape = layout.trial->layout();
  const Profile profile = CandidateProfile(*layout.trial, LargestAdmitted(layout.path, layout.budgets), options_.ends);
  const int limit = static_cast<int>((work.confirm_meter ? work.confirm : work.select).windows.size());
  for (int history : options_.histories) {
    HistoryResult result;
    result.history = history;
    result.groups = profile.groups;
    const int64_t cells = history - 1;
    result.rebuilt_cells = RebuiltRange(options_.ends, cells).size();
    result.full_bytes = FullBytes(shape, cells);
    result.sent_bytes = SentBytes(shape, profile, cells);
    const absl::StatusOr<WindowSet> windows =
        CutWindows(engine_, text, {history, options_.shape.horizon}, options_.seed, limit);
    if (windows.ok()) {
      result.windows_available = windows->available;
      RiskMeter meter(engine_, *work.store, *windows, fmt::format("history {}", history),
                      {options_.resamples, options_.seed}, progress_);
      ASSIGN_OR_RETURN(result.measurement, meter.Measure(backend_, layout.uploaded->handle(), *layout.trial, profile));
    } else if (!absl::IsInvalidArgument(windows.status())) {
      return windows.status();
    }
    work.result.comparison.histories.push_back(std::move(result));
  }
  return absl::OkStatus();
}

absl::Status Calibrator::CompareLayouts(Work& work) {
  for (std::size_t i = 1; i < work.layouts.size(); ++i) {
    LayoutRun& layout = work.layouts[i];
    RETURN_IF_ERROR(Select(work, layout));
    RETURN_IF_ERROR(Admit(work, layout));
    if (work.confirm_meter) {
      for (const Candidate& c : layout.path.prefixes) {
        if (auto stats = Measure(layout, *work.confirm_meter, layout.confirm, c.groups); !stats.ok())
          return stats.status();
      }
    }
    LayoutResult result{layout.name, layout.info.groups, layout.path,  std::move(layout.select),
                        std::move(layout.confirm), layout.budgets, 0};
    for (const GroupTensors& t : layout.tensors)
      result.weights_bytes += static_cast<int64_t>((t.b.size() + t.bias.size()) * sizeof(float));
    work.result.comparison.layouts.push_back(std::move(result));
    layout.uploaded.reset();
  }
  return absl::OkStatus();
}

}  // namespace riskkv::calibrate

#include "services/calibrate/calibrator.h"

#include <algorithm>

#include "common/base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "services/calibrate/calibrator_work.h"
#include "services/calibrate/provenance.h"
#include "services/calibrate/window_refs.h"

namespace riskkv::calibrate {
namespace {

constexpr int kHeldOutEvery = 6;  // one article (or window) in six chooses lambda

// Which fit windows are held out: whole articles where there are enough of them.
std::vector<bool> HeldOut(const WindowSet& set) {
  std::vector<int> order;  // articles by first appearance
  for (const Window& w : set.windows) {
    if (std::find(order.begin(), order.end(), w.article) == order.end()) order.push_back(w.article);
  }
  const bool by_article = static_cast<int>(order.size()) >= kHeldOutEvery;
  std::vector<bool> held;
  for (std::size_t i = 0; i < set.windows.size(); ++i) {
    const auto at = std::find(order.begin(), order.end(), set.windows[i].article) - order.begin();
    held.push_back((by_article ? at : static_cast<std::ptrdiff_t>(i)) % kHeldOutEvery == kHeldOutEvery - 1);
  }
  if (std::find(held.begin(), held.end(), true) == held.end() && held.size() > 1) held.back() = true;
  return held;
}

}  // namespace

std::string GroupsKey(const std::vector<int>& groups) { return fmt::format("{}", fmt::join(groups, "+")); }

absl::StatusOr<Splits> ReadSplits(const CalibrateOptions& options) {
  Splits splits;
  ASSIGN_OR_RETURN(splits.fit, ReadArticles(options.fit));
  ASSIGN_OR_RETURN(splits.select, ReadArticles(options.select));
  std::vector<std::pair<std::string, const TextFile*>> all = {{"fit", &splits.fit},
                                                              {"select", &splits.select}};
  if (!options.confirm.empty()) {
    ASSIGN_OR_RETURN(splits.confirm, ReadArticles(options.confirm));
    all.emplace_back("confirm", &*splits.confirm);
  }
  RETURN_IF_ERROR(CheckDisjoint(all));
  return splits;
}

Calibrator::Calibrator(Engine& engine, kernels::Backend& backend, const CalibrateOptions& options,
                       const Clock& clock, Progress& progress)
    : engine_(engine, clock), backend_(backend), options_(options), clock_(clock), progress_(progress) {}

absl::StatusOr<CalibrationResult> Calibrator::Run(const Splits& splits) {
  Work work;
  work.start = clock_.Monotonic();
  ASSIGN_OR_RETURN(work.store, OpenResultStore(options_.work_dir, options_.temp_dir));
  RETURN_IF_ERROR(PrepareLayouts(work));
  RETURN_IF_ERROR(OpenCoded(work));
  RETURN_IF_ERROR(Cut(splits, work));
  if (options_.seconds > 0) RETURN_IF_ERROR(FitTheTime(splits, work));
  if (work.fit.windows.size() < 2) {
    return absl::InvalidArgumentError(fmt::format(
        "{} fit window(s): at least 2 are needed, one to choose lambda on", work.fit.windows.size()));
  }
  const BootstrapOptions bootstrap{options_.resamples, options_.seed};
  work.select_meter =
      std::make_unique<RiskMeter>(engine_, *work.store, work.select, "select", bootstrap, progress_);
  if (!work.confirm.windows.empty()) {
    work.confirm_meter =
        std::make_unique<RiskMeter>(engine_, *work.store, work.confirm, "confirm", bootstrap, progress_);
  }
  progress_.Plan(PlannedSteps(work));
  RETURN_IF_ERROR(Fit(work));
  LayoutRun& layout = work.layouts.front();
  RETURN_IF_ERROR(Select(work, layout));
  RETURN_IF_ERROR(Probe(work, layout));
  RETURN_IF_ERROR(Admit(work, layout));
  AddProfiles(layout);
  RETURN_IF_ERROR(Finish(splits, work));
  if (!options_.report.empty()) RETURN_IF_ERROR(Compare(splits, work));
  CalibrationResult& r = work.result;
  r.measured = std::move(layout.select);
  r.confirmed = std::move(layout.confirm);
  r.exact_nll_confirm = work.confirm_meter ? work.confirm_meter->exact_nll() : 0;
  r.seconds_total = absl::ToDoubleSeconds(clock_.Monotonic() - work.start);
  r.time = {r.seconds_total, engine_.seconds(), engine_.tokens()};
  return std::move(r);
}

int Calibrator::PlannedSteps(const Work& work) const {
  const int fit = static_cast<int>(work.fit.windows.size()), select = static_cast<int>(work.select.windows.size()),
            confirm = static_cast<int>(work.confirm.windows.size());
  int steps = fit + select + confirm;
  for (const LayoutRun& layout : work.layouts) {
    const int groups = static_cast<int>(layout.groups.size());
    steps += select * (ScoringsPerSelectWindow(groups) - 1);
    steps += confirm * (options_.report.empty() ? static_cast<int>(options_.epsilons.size()) : groups);
    if (options_.report.empty()) return steps;
  }
  return steps + (confirm > 0 ? confirm : select) * FrontierScorings(work.coded.get());
}

// Before anything long, so that a set that does not fit is named at once.
absl::Status Calibrator::OpenCoded(Work& work) {
  if (options_.report.empty() || options_.coded_set.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto set, PredictorSet::Open(options_.coded_set));
  RETURN_IF_ERROR(set->CheckModel(engine_.facts().fingerprint));
  ASSIGN_OR_RETURN(CodedSource source, OpenCodedSource(*set));
  work.coded = std::make_unique<CodedSource>(std::move(source));
  return absl::OkStatus();
}

absl::Status Calibrator::PrepareLayouts(Work& work) {
  const KvLayout& layout = engine_.facts().fingerprint.layout;
  std::vector<std::string> names = options_.layouts;
  if (names.empty()) names = {"paper"};
  // Without a report nothing compares them.
  if (options_.report.empty()) names.resize(1);
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(GroupLayout given, MakeGroupLayout(name, layout.n_layer));
    for (const LayoutRun& other : work.layouts) {
      if (other.name == given.name)
        return absl::InvalidArgumentError(fmt::format("layout {} is given twice", given.name));
    }
    LayoutRun run;
    run.name = given.name;
    run.groups = std::move(given.groups);
    for (const GroupSpec& g : run.groups) work.widest = std::max(work.widest, InputWidth(g, layout.kv()));
    run.fitter = std::make_unique<GroupFitter>(layout, run.groups, options_.engine.threads);
    work.layouts.push_back(std::move(run));
  }
  return absl::OkStatus();
}

absl::Status Calibrator::Cut(const Splits& splits, Work& work) {
  const WindowShape history_only{options_.shape.history, 0};
  ASSIGN_OR_RETURN(work.fit,
                   CutWindows(engine_, splits.fit, history_only, options_.seed, options_.windows_fit));
  RETURN_IF_ERROR(CutScored(splits, work));
  work.held_out = HeldOut(work.fit);
  work.rows_per_window = std::max(1, options_.shape.history - options_.ends.first);
  const TokenRange rebuilt = RebuiltRange(options_.ends, WindowScorer::HistoryCells(options_.shape));
  if (!rebuilt.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("ends {} and {} leave nothing of a history of {} tokens to rebuild",
                                                options_.ends.first, options_.ends.last, options_.shape.history));
}

absl::Status Calibrator::CutScored(const Splits& splits, Work& work) {
  ASSIGN_OR_RETURN(work.select, CutWindows(engine_, splits.select, options_.shape, options_.seed,
                                           options_.windows_select));
  if (!splits.confirm) return absl::OkStatus();
  ASSIGN_OR_RETURN(work.confirm, CutWindows(engine_, *splits.confirm, options_.shape, options_.seed,
                                            options_.windows_confirm));
  return absl::OkStatus();
}

absl::Status Calibrator::Finish(const Splits& splits, Work& work) {
  CalibrationResult& r = work.result;
  LayoutRun& layout = work.layouts.front();
  r.windows = {static_cast<int>(work.fit.windows.size()), static_cast<int>(work.select.windows.size()),
               static_cast<int>(work.confirm.windows.size())};
  r.articles = {work.fit.articles, work.select.articles, work.confirm.articles};
  r.available = {work.fit.available, work.select.available, work.confirm.available};
  r.shape = options_.shape;
  r.select_windows = WindowRefs(engine_, work.select, splits.select);
  if (splits.confirm) r.confirm_windows = WindowRefs(engine_, work.confirm, *splits.confirm);
  r.hidden_width = engine_.facts().n_embd;
  r.exact_nll = work.select_meter->exact_nll();
  r.fitted = std::move(layout.fitted);
  r.path = layout.path;
  r.budgets = layout.budgets;
  layout.info.calibration = ProvenanceJson(options_, splits, r);
  ASSIGN_OR_RETURN(r.bytes, SerializePredictorSet(engine_.facts().fingerprint, layout.info, layout.tensors,
                                                  WeightTypeOf(options_.dtype)));
  ASSIGN_OR_RETURN(r.set, PredictorSet::FromBytes(r.bytes, "the calibrated set"));
  return absl::OkStatus();
}

}  // namespace riskkv::calibrate

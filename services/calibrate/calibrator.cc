#include "services/calibrate/calibrator.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "common/base/status.h"
#include "common/predictor/features.h"
#include "common/quality/probe_bounds.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "services/calibrate/provenance.h"

namespace riskkv::calibrate {
namespace {

constexpr int kHeldOutEvery = 6;  // one article (or window) in six chooses lambda

// Lambdas tried before the search ends, for the estimate.
constexpr double kExpectedLambdas = 6;

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

kernels::WeightType TypeOf(const std::string& dtype) {
  return dtype == "fp16" ? kernels::WeightType::kF16 : kernels::WeightType::kF32;
}

}  // namespace

struct Calibrator::Work {
  CalibrationResult result;
  std::vector<GroupSpec> groups;
  std::string layout_name = "period-four";
  WindowSet fit, select, confirm;
  std::vector<bool> held_out;
  std::unique_ptr<GroupFitter> fitter;
  std::size_t fitted_windows = 0;
  int widest = 0;  // d_in of the widest group
  int rows_per_window = 1;
  std::unique_ptr<CellStore> store;
  std::unique_ptr<RiskMeter> select_meter, confirm_meter;
  SetInfo info;
  std::vector<GroupTensors> tensors;
  std::shared_ptr<const PredictorSet> trial;  // weights as they will be shipped; what is measured
  std::unique_ptr<UploadedSet> uploaded;
  Rates rates;
  absl::Duration start;
};

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
    : engine_(engine), backend_(backend), options_(options), clock_(clock), progress_(progress) {}

absl::StatusOr<CalibrationResult> Calibrator::Run(const Splits& splits) {
  Work work;
  work.start = clock_.Monotonic();
  RETURN_IF_ERROR(Cut(splits, work));
  if (options_.seconds > 0) RETURN_IF_ERROR(FitTheTime(splits, work));
  if (work.fit.windows.size() < 2) {
    return absl::InvalidArgumentError(fmt::format(
        "{} fit window(s): at least 2 are needed, one to choose lambda on", work.fit.windows.size()));
  }
  const std::size_t scorings =
      static_cast<std::size_t>(ScoringsPerSelectWindow(static_cast<int>(work.groups.size())));
  progress_.Plan(static_cast<int>(work.fit.windows.size() + work.select.windows.size() * scorings +
                                  work.confirm.windows.size() * (1 + options_.epsilons.size())));
  RETURN_IF_ERROR(Fit(work));
  RETURN_IF_ERROR(Select(work));
  RETURN_IF_ERROR(Probe(work));
  RETURN_IF_ERROR(Admit(work));
  RETURN_IF_ERROR(Finish(splits, work));
  return std::move(work.result);
}

absl::Status Calibrator::Cut(const Splits& splits, Work& work) {
  const KvLayout& layout = engine_.facts().fingerprint.layout;
  work.groups = PeriodFourGroups(layout.n_layer);
  if (!options_.layout_file.empty()) {
    ASSIGN_OR_RETURN(GroupLayout given, ReadGroupLayout(options_.layout_file, layout.n_layer));
    work.groups = std::move(given.groups);
    work.layout_name = given.name;
  }
  if (work.groups.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("a model of {} layers has no layer groups (six are needed)", layout.n_layer));
  }
  const WindowShape history_only{options_.shape.history, 0};
  ASSIGN_OR_RETURN(work.fit,
                   CutWindows(engine_, splits.fit, history_only, options_.seed, options_.windows_fit));
  RETURN_IF_ERROR(CutScored(splits, work));
  work.held_out = HeldOut(work.fit);
  for (const GroupSpec& g : work.groups) work.widest = std::max(work.widest, InputWidth(g, layout.kv()));
  work.rows_per_window = std::max(1, options_.shape.history - options_.ends.first);
  work.fitter = std::make_unique<GroupFitter>(layout, work.groups, options_.engine.threads);
  ASSIGN_OR_RETURN(work.store, CellStore::Create(options_.temp_dir, layout));
  return absl::OkStatus();
}

absl::Status Calibrator::CutScored(const Splits& splits, Work& work) {
  ASSIGN_OR_RETURN(work.select, CutWindows(engine_, splits.select, options_.shape, options_.seed,
                                           options_.windows_select));
  if (!splits.confirm) return absl::OkStatus();
  ASSIGN_OR_RETURN(work.confirm, CutWindows(engine_, *splits.confirm, options_.shape, options_.seed,
                                            options_.windows_confirm));
  return absl::OkStatus();
}

absl::Status Calibrator::AddFitWindow(Work& work, std::size_t i) {
  WindowScorer scorer(engine_);
  ASSIGN_OR_RETURN(const KvBlock cells, scorer.Prefill(work.fit.windows[i].tokens));
  ASSIGN_OR_RETURN(const PreRopeBlock rows, UndoRope(engine_.facts().fingerprint.layout, cells));
  // The first tokens are outliers (attention sinks) and never rebuilt.
  const int64_t from = std::min<int64_t>(options_.ends.first, cells.range.end);
  work.fitter->Add(rows, from, cells.range.end, work.held_out[i]);
  return absl::OkStatus();
}

// Seconds of the parts, from one window each; the fit window counts.
absl::Status Calibrator::MeasureRates(Work& work) {
  WindowScorer scorer(engine_);
  progress_.Begin("measuring the rate", 2);
  const absl::Duration t0 = clock_.Monotonic();
  RETURN_IF_ERROR(AddFitWindow(work, 0));
  work.fitted_windows = 1;
  const absl::Duration t1 = clock_.Monotonic();
  progress_.Step();
  const Window& window = work.select.windows[0];
  const std::size_t cells = static_cast<std::size_t>(WindowScorer::HistoryCells(options_.shape));
  ASSIGN_OR_RETURN(const KvBlock exact, scorer.Prefill(std::span<const Token>(window.tokens).first(cells)));
  const absl::Duration t2 = clock_.Monotonic();
  if (auto nll = scorer.Score(exact, window, options_.shape); !nll.ok()) return nll.status();
  const absl::Duration t3 = clock_.Monotonic();
  progress_.Step();
  work.rates = {absl::ToDoubleSeconds(t1 - t0), absl::ToDoubleSeconds(t2 - t1),
                absl::ToDoubleSeconds(t3 - t2), 0};
  const double accumulate = std::max(0.0, work.rates.fit_window - work.rates.prefill);
  // Cholesky and products for each lambda against one window's share of the normal equations, by operation
  // counts.
  work.rates.solve = accumulate * work.widest / work.rows_per_window * (kExpectedLambdas + 3);
  return absl::OkStatus();
}

absl::Status Calibrator::FitTheTime(const Splits& splits, Work& work) {
  RETURN_IF_ERROR(MeasureRates(work));
  PlanInput input;
  input.seconds = options_.seconds - absl::ToDoubleSeconds(clock_.Monotonic() - work.start);
  input.rates = work.rates;
  input.groups = static_cast<int>(work.groups.size());
  input.budgets = static_cast<int>(options_.epsilons.size());
  // A sixth is held out, and a fit wants some more rows than features.
  input.min_fit = 2 + work.widest * 3 / 2 / work.rows_per_window;
  auto available = [&] {
    input.available = {static_cast<int>(work.fit.windows.size()),
                       static_cast<int>(work.select.windows.size()),
                       static_cast<int>(work.confirm.windows.size())};
  };
  available();
  const int horizon =
      options_.horizon_given ? options_.shape.horizon : PlanHorizon(input, options_.shape.horizon);
  if (horizon != options_.shape.horizon) {
    input.rates.score *= static_cast<double>(horizon) / options_.shape.horizon;
    options_.shape.horizon = horizon;
    RETURN_IF_ERROR(CutScored(splits, work));
    available();
  }
  const WindowCounts counts = PlanWindows(input);
  LimitWindows(work.fit, counts.fit);
  LimitWindows(work.select, counts.select);
  LimitWindows(work.confirm, counts.confirm);
  work.held_out.resize(work.fit.windows.size());
  if (std::find(work.held_out.begin(), work.held_out.end(), true) == work.held_out.end())
    work.held_out.back() = true;
  return absl::OkStatus();
}

absl::Status Calibrator::Fit(Work& work) {
  progress_.Begin("fit", static_cast<int>(work.fit.windows.size()));
  for (std::size_t i = 0; i < work.fit.windows.size(); ++i) {
    RETURN_IF_ERROR(progress_.Check());
    if (i >= work.fitted_windows) RETURN_IF_ERROR(AddFitWindow(work, i));
    progress_.Step();
  }
  ASSIGN_OR_RETURN(work.result.fitted, work.fitter->Solve(DefaultLambdaGrid()));
  work.fitter.reset();
  work.info.layout = work.layout_name;
  for (FittedGroup& g : work.result.fitted) {
    work.info.groups.push_back(g.info);
    work.tensors.push_back(g.tensors);
  }
  work.info.profiles["exact"] = ExactProfile(options_.ends);
  ASSIGN_OR_RETURN(std::string bytes, SerializePredictorSet(engine_.facts().fingerprint, work.info,
                                                            work.tensors, TypeOf(options_.dtype)));
  ASSIGN_OR_RETURN(work.trial, PredictorSet::FromBytes(std::move(bytes), "the set under calibration"));
  ASSIGN_OR_RETURN(work.uploaded, UploadedSet::Create(backend_, *work.trial));
  return progress_.Check();
}

absl::StatusOr<RiskStats> Calibrator::Measure(Work& work, RiskMeter& meter, const std::vector<int>& groups) {
  const Profile profile = CandidateProfile(*work.trial, groups, options_.ends);
  ASSIGN_OR_RETURN(const Measurement m,
                   meter.Measure(backend_, work.uploaded->handle(), *work.trial, profile));
  if (&meter == work.select_meter.get()) work.result.measured[fmt::format("{}", fmt::join(groups, "+"))] = m;
  return m.stats;
}

absl::Status Calibrator::Select(Work& work) {
  const BootstrapOptions bootstrap{options_.resamples, options_.seed};
  work.select_meter =
      std::make_unique<RiskMeter>(engine_, *work.store, work.select, "select", bootstrap, progress_);
  RETURN_IF_ERROR(work.select_meter->Prepare());
  work.result.exact_nll = work.select_meter->exact_nll();
  std::vector<int64_t> bytes;
  for (const GroupSpec& g : work.groups) {
    bytes.push_back(engine_.facts().fingerprint.layout.bytes_per_token_layer() *
                    static_cast<int64_t>(g.targets.size()));
  }
  auto evaluate = [&](const std::vector<int>& groups) { return Measure(work, *work.select_meter, groups); };
  ASSIGN_OR_RETURN(work.result.path, FollowPath(bytes, evaluate));
  for (std::size_t g = 0; g < work.info.groups.size(); ++g)
    work.info.groups[g].risk = work.result.path.singles[g].select;
  return absl::OkStatus();
}

absl::Status Calibrator::Probe(Work& work) {
  const TokenRange rebuilt = RebuiltRange(options_.ends, WindowScorer::HistoryCells(options_.shape));
  if (rebuilt.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("ends {} and {} leave nothing of a history of {} tokens to rebuild", options_.ends.first,
                    options_.ends.last, options_.shape.history));
  }
  work.info.probe.margin = options_.probe_margin;
  std::vector<TokenErrors> errors;
  for (std::size_t i = 0; i < work.select.windows.size(); ++i) {
    ASSIGN_OR_RETURN(const KvBlock exact, work.select_meter->ExactCells(i));
    ASSIGN_OR_RETURN(TokenErrors e, MeasureTokenErrors(backend_, work.uploaded->handle(), *work.trial,
                                                       options_.ends, exact));
    errors.push_back(std::move(e));
  }
  return SetProbeBounds(errors, work.info.probe, options_.seed, work.info.groups);
}

absl::Status Calibrator::Admit(Work& work) {
  const std::vector<Candidate>& candidates = work.result.path.prefixes;
  const bool stable = !work.confirm.windows.empty();
  const Gate gate = stable ? Gate::kStableSplit : Gate::kUpper90;
  const BootstrapOptions bootstrap{options_.resamples, options_.seed};
  work.confirm_meter =
      std::make_unique<RiskMeter>(engine_, *work.store, work.confirm, "confirm", bootstrap, progress_);
  std::map<std::vector<int>, RiskStats> confirmed;
  auto confirm = [&](const std::vector<int>& groups) -> absl::StatusOr<RiskStats> {
    ASSIGN_OR_RETURN(const RiskStats stats, Measure(work, *work.confirm_meter, groups));
    confirmed[groups] = stats;
    return stats;
  };
  bool any = false;
  for (double epsilon : options_.epsilons) {
    ASSIGN_OR_RETURN(const int chosen, SelectCandidate(gate, epsilon, candidates, confirm));
    BudgetResult budget{epsilon, chosen < 0 ? "exact" : ProfileName(epsilon), gate};
    work.result.budgets.push_back(budget);
    if (chosen < 0) continue;
    any = true;
    const Candidate& c = candidates[static_cast<std::size_t>(chosen)];
    Profile p = CandidateProfile(*work.trial, c.groups, options_.ends);
    p.name = budget.profile;
    p.epsilon = epsilon;
    p.gated = true;
    p.gate = GateName(gate);
    p.select = c.select;
    if (stable) p.confirm = confirmed[c.groups];
    work.info.profiles[p.name] = p;
  }
  for (const Candidate& c : candidates) {
    const auto it = confirmed.find(c.groups);
    work.info.path.push_back({c.groups, c.select, it == confirmed.end() ? RiskStats{} : it->second});
  }
  if (!any) {
    const Candidate& safest =
        work.result.path.singles[static_cast<std::size_t>(work.result.path.order.front())];
    Profile p = CandidateProfile(*work.trial, safest.groups, options_.ends);
    p.name = "ungated-safest";
    p.select = safest.select;
    work.info.profiles[p.name] = p;
  }
  return absl::OkStatus();
}

absl::Status Calibrator::Finish(const Splits& splits, Work& work) {
  CalibrationResult& r = work.result;
  r.windows = {static_cast<int>(work.fit.windows.size()), static_cast<int>(work.select.windows.size()),
               static_cast<int>(work.confirm.windows.size())};
  r.articles = {work.fit.articles, work.select.articles, work.confirm.articles};
  work.info.calibration = ProvenanceJson(options_, splits, r);
  ASSIGN_OR_RETURN(r.bytes, SerializePredictorSet(engine_.facts().fingerprint, work.info, work.tensors,
                                                  TypeOf(options_.dtype)));
  ASSIGN_OR_RETURN(r.set, PredictorSet::FromBytes(r.bytes, "the calibrated set"));
  r.seconds_total = absl::ToDoubleSeconds(clock_.Monotonic() - work.start);
  return absl::OkStatus();
}

}  // namespace riskkv::calibrate

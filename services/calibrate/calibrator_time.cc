// How many windows a time budget allows: see calibrator.h.
#include <algorithm>

#include "common/base/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "services/calibrate/calibrator_work.h"

namespace riskkv::calibrate {
namespace {

// Lambdas tried before the search ends, for the estimate.
constexpr double kExpectedLambdas = 6;

std::string PlanKey(const Engine& engine, const CalibrateOptions& o, const Splits& splits) {
  return ResultKey("plan", fmt::format("{} {} {} {} {} {}+{} {} {} {} {}", EngineKey(engine), splits.fit.digest,
                                       splits.select.digest, splits.confirm ? splits.confirm->digest : "", o.seconds,
                                       o.shape.history, o.shape.horizon, o.windows_fit, o.windows_select,
                                       o.windows_confirm, o.seed));
}

}  // namespace

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

absl::Status Calibrator::ApplyPlan(const Splits& splits, const WindowCounts& counts, int horizon, Work& work) {
  if (horizon != options_.shape.horizon) {
    options_.shape.horizon = horizon;
    RETURN_IF_ERROR(CutScored(splits, work));
  }
  LimitWindows(work.fit, counts.fit);
  LimitWindows(work.select, counts.select);
  LimitWindows(work.confirm, counts.confirm);
  work.held_out.resize(work.fit.windows.size());
  if (std::find(work.held_out.begin(), work.held_out.end(), true) == work.held_out.end())
    work.held_out.back() = true;
  return absl::OkStatus();
}

absl::Status Calibrator::FitTheTime(const Splits& splits, Work& work) {
  // A run that goes on keeps the numbers it began with, whatever the machine's speed now.
  const std::string key = PlanKey(engine_, options_, splits);
  if (auto kept = work.store->Get(key); kept.ok()) {
    const nlohmann::json j = nlohmann::json::parse(*kept, nullptr, /*allow_exceptions=*/false);
    if (j.is_array() && j.size() == 4)
      return ApplyPlan(splits, {j[0].get<int>(), j[1].get<int>(), j[2].get<int>()}, j[3].get<int>(), work);
  }
  RETURN_IF_ERROR(MeasureRates(work));
  const LayoutRun& layout = work.layouts.front();
  PlanInput input;
  input.seconds = options_.seconds - absl::ToDoubleSeconds(clock_.Monotonic() - work.start);
  input.rates = work.rates;
  input.groups = static_cast<int>(layout.groups.size());
  input.budgets = options_.report.empty() ? static_cast<int>(options_.epsilons.size())
                                          : input.groups + FrontierScorings(work.coded.get());
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
  const nlohmann::json plan = {counts.fit, counts.select, counts.confirm, horizon};
  RETURN_IF_ERROR(work.store->Put(key, plan.dump()));
  return ApplyPlan(splits, counts, horizon, work);
}

}  // namespace riskkv::calibrate

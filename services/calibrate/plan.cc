#include "services/calibrate/plan.h"

#include <algorithm>

namespace riskkv::calibrate {
namespace {

constexpr double kFitShare = 0.25;
constexpr double kConfirmShare = 1.0 / 7.0;
constexpr int kFewest = 2;

int Fitting(double seconds, double each, int fewest, int available) {
  const double n = each > 0 ? seconds / each : available;
  return std::min(available, std::max(fewest, static_cast<int>(std::min(n, 1e6))));
}

}  // namespace

WindowCounts PlanWindows(const PlanInput& in) {
  WindowCounts counts;
  const double left = std::max(0.0, in.seconds - in.rates.solve);
  counts.fit = Fitting(left * kFitShare, in.rates.fit_window, in.min_fit, in.available.fit);
  const double scoring = std::max(0.0, left - counts.fit * in.rates.fit_window);
  const double each_select = in.rates.prefill + ScoringsPerSelectWindow(in.groups) * in.rates.score;
  const double each_confirm = in.rates.prefill + (1 + in.budgets) * in.rates.score;
  const double for_confirm = in.available.confirm > 0 ? scoring * kConfirmShare : 0;
  counts.select = Fitting(scoring - for_confirm, each_select, kFewest, in.available.select);
  if (in.available.confirm > 0)
    counts.confirm = Fitting(for_confirm, each_confirm, kFewest, in.available.confirm);
  return counts;
}

int PlanHorizon(const PlanInput& input, int horizon) {
  PlanInput trial = input;
  int shortest = horizon;
  for (int divisor : {1, 2, 4}) {
    if (horizon / divisor < 64) break;  // the engine's fixed batches
    shortest = horizon / divisor;
    trial.rates.score = input.rates.score / divisor;
    const int wanted = std::min(kEnoughSelectWindows, input.available.select);
    if (PlanWindows(trial).select >= wanted) break;
  }
  return shortest;
}

}  // namespace riskkv::calibrate

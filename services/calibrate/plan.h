// How many windows fit a time budget.
#ifndef RISKKV_SERVICES_CALIBRATE_PLAN_H_
#define RISKKV_SERVICES_CALIBRATE_PLAN_H_

namespace riskkv::calibrate {

// Measured on this machine with this model, seconds.
struct Rates {
  double fit_window = 0;  // prefill of a history and its share of the normal equations
  double prefill = 0;     // of a history
  double score = 0;       // of a horizon
  double solve = 0;       // of all groups, once
};

struct WindowCounts {
  int fit = 0, select = 0, confirm = 0;
};

struct PlanInput {
  double seconds = 0;  // that are left
  Rates rates;
  int groups = 0;
  int budgets = 1;         // confirmations at most expected
  int min_fit = 2;         // windows without which nothing can be fitted
  WindowCounts available;  // confirm 0: no confirmation split
};

// Scorings of a selection window: exact, then 2G - 1 candidates.
inline int ScoringsPerSelectWindow(int groups) { return groups > 0 ? 2 * groups : 1; }

// A quarter of the time goes to the fit (never below min_fit), the rest to selection and, one part in seven,
// confirmation. At least two windows of each, whatever the budget: less says nothing.
WindowCounts PlanWindows(const PlanInput& input);

// Windows of fewer than this many say little: the spread between requests is large.
inline constexpr int kEnoughSelectWindows = 12;

// The longest of horizon, horizon/2, horizon/4 that gives kEnoughSelectWindows selection windows (or all
// there are) within the time; the shortest when none does. `input.rates.score` is of the whole horizon.
int PlanHorizon(const PlanInput& input, int horizon);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_PLAN_H_

// What the gates are worth: each applied to many resamples of the selection windows, and held against windows it has not seen
// (the paper's Table II).
#ifndef RISKKV_COMMON_QUALITY_GATE_TRIALS_H_
#define RISKKV_COMMON_QUALITY_GATE_TRIALS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/quality/bootstrap.h"
#include "common/quality/path.h"

namespace riskkv {

// One prefix of the path: its paired deltas on the selection and on the held windows, each in the same order of windows for
// all candidates.
struct TrialCandidate {
  int64_t bytes_saved = 0;
  std::vector<PairedDelta> select, held;
};

struct TrialOptions {
  int trials = 1000;
  int resamples = 400;  // of the bound within one trial
  uint64_t seed = 1;
};

struct Proportion {
  double value = 0, low95 = 0, high95 = 0;
};

// One gate at one budget.
struct GateTrials {
  Gate gate = Gate::kMean;
  double epsilon = 0;
  int trials = 0;
  Proportion violations;          // trials whose choice has a held mean above epsilon; Wilson interval over trials
  Proportion request_violations;  // held windows above epsilon under the choice, mean over trials; interval over the held
                                  // articles and windows (bootstrap)
  double bytes_saved = 0;         // mean over trials, a share of `bytes_full`; no choice saves nothing
  double bytes_saved_low = 0, bytes_saved_high = 0;  // 2.5 % and 97.5 % of trials
  double chose_nothing = 0;       // share of trials without an admissible candidate (the exact profile: no violation)
};

// In each trial the articles of the selection windows are dealt into two halves and resampled in each (articles with
// replacement, then their windows). All gates choose among `candidates` on the first half; Stable-split confirms on the second.
// The order of the candidates is fixed from outside. Empty without selection or held windows, or with fewer than two articles
// (then windows are dealt). Deterministic in the seed.
std::vector<GateTrials> TryGates(std::span<const TrialCandidate> candidates, std::span<const double> epsilons,
                                 int64_t bytes_full, const TrialOptions& options);

// value = p = k / n with its 95 % Wilson score interval, z = 1.96:
//   (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n), within [0, 1]; all zero for n <= 0.
Proportion Wilson(int k, int n);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_GATE_TRIALS_H_

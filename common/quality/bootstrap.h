// How sure a mean over windows is: paired hierarchical bootstrap, articles first, then the windows of each,
// since windows of one article are not independent.
#ifndef RISKKV_COMMON_QUALITY_BOOTSTRAP_H_
#define RISKKV_COMMON_QUALITY_BOOTSTRAP_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/predictor/profile.h"

namespace riskkv {

// One window's paired difference (rebuilt minus exact), nats per token.
struct PairedDelta {
  int article = 0;
  double value = 0;
};

struct BootstrapOptions {
  int resamples = 10000;
  uint64_t seed = 1;
};

// Means of `resamples` resamples, ascending. Each draws as many articles as there are, with replacement, from
// each drawn article as many of its windows as it has, with replacement, and takes the mean over all windows
// drawn. The draws depend on the seed and on the windows' articles alone: candidates scored on the same
// windows are resampled alike.
std::vector<double> BootstrapMeans(std::span<const PairedDelta> deltas, const BootstrapOptions& options);

// q-quantile of n ascending values: at h = q (n - 1), v[floor h] + (h - floor h) (v[floor h + 1] - v[floor h]); 0 for
// none.
double Quantile(std::span<const double> ascending, double q);

// mean = (1/n) sum of the values; low95, high95, upper90 = the 2.5 %, 97.5 % and 90 % Quantile of BootstrapMeans; p50,
// p90, p99 = Quantile over the values themselves; worst = the largest. Nats per token, all zero without windows.
RiskStats Summarise(std::span<const PairedDelta> deltas, const BootstrapOptions& options);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_BOOTSTRAP_H_

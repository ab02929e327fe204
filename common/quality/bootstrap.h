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

// q-quantile of ascending values, linear between neighbours; 0 for none.
double Quantile(std::span<const double> ascending, double q);

// Mean, its 95 % interval and one-sided 90 % upper bound, and the distribution over single windows. All zero without windows.
RiskStats Summarise(std::span<const PairedDelta> deltas, const BootstrapOptions& options);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_BOOTSTRAP_H_

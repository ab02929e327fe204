// The bounds above which a destination must refuse a rebuilt cache, from held-out windows (design.md 5,
// "Probe").
#ifndef RISKKV_COMMON_QUALITY_PROBE_BOUNDS_H_
#define RISKKV_COMMON_QUALITY_PROBE_BOUNDS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/predictor/predictor_set.h"
#include "common/predictor/rebuild.h"
#include "common/quality/risk.h"

namespace riskkv {

// Errors of single tokens of one held-out window: [token][layer of `layers`][K, V], relative to the
// calibrated variance.
struct TokenErrors {
  TokenRange range;         // the rebuilt cells
  std::vector<int> layers;  // every target of the set
  std::vector<float> values;
  std::size_t stride() const { return 2 * layers.size(); }
};

// values[t][l][K|V] = |rebuilt - exact|^2 over the kv elements / the layer's calibrated variance, t over the
// cells that `ends` leaves of one exact cache; all groups rebuilt.
absl::StatusOr<TokenErrors> MeasureTokenErrors(kernels::Backend& backend, kernels::SetHandle handle,
                                               const PredictorSet& set, const EndsPolicy& ends,
                                               const KvBlock& exact);

// Fills k, v (quantiles over tokens) and k_bound, v_bound of every layer in `groups`. A move is simulated
// many times a window: policy.tokens_per_block tokens of each block of policy.block_tokens are probed, and
// every layer's error over its own 99 % quantile taken; the bounds are those quantiles times the factor that
// a share policy.false_alarm of the simulated moves exceeds anywhere, times policy.margin:
//   bound[c] = q99[c] * max(1, Q(1 - false_alarm; over moves of max over blocks and c of probe[c] / q99[c])) * margin,
// probe[c] the mean over a block's probed tokens. INVALID_ARGUMENT without any token.
absl::Status SetProbeBounds(const std::vector<TokenErrors>& windows, const ProbePolicy& policy, uint64_t seed,
                            std::vector<GroupInfo>& groups);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_PROBE_BOUNDS_H_

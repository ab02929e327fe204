// What a destination does with a lossy block: rebuild the omitted layers, and compare a sample with exact
// rows.
#ifndef RISKKV_COMMON_PREDICTOR_REBUILD_H_
#define RISKKV_COMMON_PREDICTOR_REBUILD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"
#include "common/predictor/predictor_set.h"
#include "kernels/backend.h"

namespace riskkv {

// Uploads a set; releases it when destroyed. The backend must outlive it.
class UploadedSet {
 public:
  static absl::StatusOr<std::unique_ptr<UploadedSet>> Create(kernels::Backend& backend,
                                                             const PredictorSet& set);
  ~UploadedSet();
  UploadedSet(const UploadedSet&) = delete;
  UploadedSet& operator=(const UploadedSet&) = delete;
  kernels::SetHandle handle() const { return handle_; }

 private:
  UploadedSet(kernels::Backend& backend, kernels::SetHandle handle) : backend_(backend), handle_(handle) {}
  kernels::Backend& backend_;
  kernels::SetHandle handle_;
};

// The layers a source ships under a profile, tokens between the ends: all but the omitted ones.
std::vector<int> ShippedLayers(const PredictorSet& set, const Profile& profile);

// For each omitted group Z = X B + d in fp32: X [tokens, 2 kv |anchors|] from the shipped anchors (keys before RoPE), Z [tokens,
// 2 kv |targets|]; predicted keys rotated at their own positions, then all rounded to fp16.
// `shipped` holds exactly ShippedLayers over some token range; the result holds all layers over it, shipped
// rows bit for bit, omitted ones rebuilt (design.md 2, "Online"). INVALID_ARGUMENT names what is missing.
absl::StatusOr<KvBlock> RebuildBlock(kernels::Backend& backend, kernels::SetHandle handle,
                                     const PredictorSet& set, const Profile& profile, const KvBlock& shipped);

// Rows of some layers at single token positions, in the order [layer][K|V][position][kv], fp16, keys after
// RoPE: the payload of a PROBE segment.
struct ProbeRows {
  std::vector<int64_t> positions;  // ascending
  std::vector<int> layers;         // ascending
  int kv = 0;
  std::vector<uint16_t> data;
  int64_t elements() const {
    return static_cast<int64_t>(layers.size()) * 2 * static_cast<int64_t>(positions.size()) * kv;
  }
};

// Which tokens of a block are probed: `n` distinct positions of `range` (all when it has no more), ascending,
// a pure function of (range, n, seed).
std::vector<int64_t> ProbePositions(TokenRange range, int n, uint64_t seed);

// INVALID_ARGUMENT when a position or layer is not in the block.
absl::StatusOr<ProbeRows> GatherRows(const KvBlock& block, const std::vector<int64_t>& positions,
                                     const std::vector<int>& layers);

// Error of one omitted layer over the probed tokens: mean over tokens of |rebuilt - exact|^2 (sum over kv
// elements) divided by the calibrated total variance of that layer's K (before RoPE; rotations keep the norm,
// so cached keys serve) and V. Zero is exact; one is as good as predicting the mean.
struct LayerError {
  int layer = 0;
  double k = 0;
  double v = 0;
  int tokens = 0;
};

// `rebuilt` holds the rows' positions and layers. The rows' layers must be omitted layers of the set.
absl::StatusOr<std::vector<LayerError>> ProbeError(const PredictorSet& set, const KvBlock& rebuilt,
                                                   const ProbeRows& exact);

// Worst layer's error over its bound, K and V: at most 1 passes. Infinite for a layer without a recorded
// bound.
double ProbeRatio(const PredictorSet& set, const std::vector<LayerError>& errors);

// DATA_LOSS (VERIFY_GATE) naming the worst layer, its error and its bound; also when an omitted layer of the
// profile was not probed or an error is not a number. No reconstructed request is resumed unchecked.
absl::Status CheckProbe(const PredictorSet& set, const Profile& profile,
                        const std::vector<LayerError>& errors);

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_REBUILD_H_

// Rows for the predictors: cached keys turned back to before RoPE, and columns gathered by layer (design.md
// 2, "Features").
#ifndef RISKKV_COMMON_PREDICTOR_FEATURES_H_
#define RISKKV_COMMON_PREDICTOR_FEATURES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"

namespace riskkv {

// A KvBlock in fp32 with keys before RoPE; same order [layer][K|V][token][kv].
class PreRopeBlock {
 public:
  TokenRange range;
  std::vector<int> layers;
  int kv = 0;
  std::vector<float> data;
  // part 0: K, 1: V; i is an index into `layers`.
  const float* rows(int i, int part) const { return data.data() + Offset(i, part); }
  float* rows(int i, int part) { return data.data() + Offset(i, part); }

 private:
  std::size_t Offset(int i, int part) const {
    return (static_cast<std::size_t>(i) * 2 + part) * static_cast<std::size_t>(range.size()) * kv;
  }
};

// Keys turned back by their own positions, each rotated pair (a, b) of a head at position p:
//   a' = a cos t + b sin t,  b' = b cos t - a sin t,  t = p freq_scale freq_base^(-2i / rotary_dim) / freq_factors[i]
// (kernels/backend.h, RopeParams); values widened. INVALID_ARGUMENT when the block is not one of the layout.
absl::StatusOr<PreRopeBlock> UndoRope(const KvLayout& layout, const KvBlock& block);

// The other way, a = a' cos t - b' sin t, b = b' cos t + a' sin t: keys rotated at their own positions again, everything rounded to fp16. INVALID_ARGUMENT when the
// sizes do not fit, OUT_OF_RANGE when an element does not fit fp16.
absl::StatusOr<KvBlock> RedoRope(const KvLayout& layout, PreRopeBlock rows);

// Columns of `layers` side by side in double precision, for each layer K before RoPE then V:
// out [to - from, 2*kv*|layers|] over the absolute token positions [from, to). With the anchors of a group
// this is its X, with its targets its Z (kernels/backend.h). The layers must be in the block.
std::vector<double> GatherColumns(const PreRopeBlock& block, const std::vector<int>& layers, int64_t from,
                                  int64_t to);

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_FEATURES_H_

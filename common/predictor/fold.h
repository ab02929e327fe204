// Folding a ridge onto hidden states into a predictor of K and V, and what predictors cost in bytes (the
// paper's Table III). Calibration fits onto K and V directly, which gives the same predictor (design.md 2);
// this route is the test oracle and the "raw ridge" column.
#ifndef RISKKV_COMMON_PREDICTOR_FOLD_H_
#define RISKKV_COMMON_PREDICTOR_FOLD_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/predictor/layout_groups.h"
#include "common/predictor/ridge.h"

namespace riskkv {

// One target layer's own projections, K = H w_k + c_k and V = H w_v + c_v with H [T, d] the hidden state
// after the attention norm. w [d, kv] row-major; an empty bias is zero.
struct LayerProjections {
  std::vector<double> w_k, w_v;
  std::vector<double> c_k, c_v;
};

// raw: ridge onto the targets' hidden states side by side, A [d_in, |targets|*d], b [|targets|*d].
// Returns B = A P_T, d = b P_T + c_T with P_T block-diagonal: B [d_in, |targets|*2*kv], per target K then V.
// INVALID_ARGUMENT when the shapes do not fit.
absl::StatusOr<RidgeSolution> Fold(const RidgeSolution& raw, const std::vector<LayerProjections>& targets,
                                   int d, int kv);

// (d_in + 1) * d_out * element: what a group costs folded (element 4 in fp32, 2 in fp16)
int64_t FoldedBytes(const GroupSpec& group, int kv, int element);
// and as a raw ridge onto hidden states of width d: (d_in + 1) * |targets| * d * element.
int64_t RawBytes(const GroupSpec& group, int kv, int d, int element);

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_FOLD_H_

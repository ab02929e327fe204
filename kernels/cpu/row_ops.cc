#include "kernels/cpu/row_ops.h"

#include "kernels/cpu/dispatch.h"
#include "kernels/rope.h"

namespace riskkv::kernels {
namespace {

// The arithmetic is RopeForward's; the loops are written out per pairing so that they vectorise.
RISKKV_INLINE void TurnHalves(float* __restrict head, int half, const float* __restrict cosine,
                              const float* __restrict sine, float sign) {
  for (int i = 0; i < half; ++i) RopeForward(cosine[i], sign * sine[i], &head[i], &head[i + half]);
}

RISKKV_INLINE void TurnNeighbours(float* __restrict head, int half, const float* __restrict cosine,
                                  const float* __restrict sine, float sign) {
  for (int i = 0; i < half; ++i) RopeForward(cosine[i], sign * sine[i], &head[2 * i], &head[2 * i + 1]);
}

RISKKV_INLINE void RotateBody(const HeadShape& shape, float sign, const float* cosine, const float* sine, float* row) {
  for (int h = 0; h < shape.n_head_kv; ++h) {
    float* head = row + static_cast<std::size_t>(h) * shape.head_dim;
    if (shape.pairing == RopePairing::kHalves) {
      TurnHalves(head, shape.half(), cosine, sine, sign);
    } else {
      TurnNeighbours(head, shape.half(), cosine, sine, sign);
    }
  }
}

RISKKV_AVX2 void RotateAvx2(const HeadShape& shape, float sign, const float* cosine, const float* sine, float* row) {
  RotateBody(shape, sign, cosine, sine, row);
}

void RotateBase(const HeadShape& shape, float sign, const float* cosine, const float* sine, float* row) {
  RotateBody(shape, sign, cosine, sine, row);
}

}  // namespace

void RotateRow(const HeadShape& shape, Turn turn, const float* cosine, const float* sine, float* row) {
  if (shape.pairing == RopePairing::kNone) return;
  const float sign = turn == Turn::kForward ? 1.0f : -1.0f;
  HasAvx2() ? RotateAvx2(shape, sign, cosine, sine, row) : RotateBase(shape, sign, cosine, sine, row);
}

void AddBias(const float* __restrict bias, float* __restrict row, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) row[i] += bias[i];
}

}  // namespace riskkv::kernels

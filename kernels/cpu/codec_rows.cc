#include "kernels/cpu/codec_rows.h"

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/dispatch.h"

namespace riskkv::kernels {
namespace {

RISKKV_INLINE void CentreBody(const float* __restrict mean, float inverse_scale, int n, float* __restrict row) {
  for (int j = 0; j < n; ++j) row[j] = Centred(row[j], mean[j], inverse_scale);
}

RISKKV_INLINE void RestoreBody(const float* __restrict mean, float scale, int n, float* __restrict row) {
  for (int j = 0; j < n; ++j) row[j] = Restored(row[j], mean[j], scale);
}

RISKKV_INLINE void QuantiseBody(const float* __restrict y, const float* __restrict p, float step, LevelRule rule, int n,
                                int32_t* __restrict levels, float* __restrict z) {
  const float inverse = 1.0f / step;
  for (int j = 0; j < n; ++j) {
    levels[j] = LevelOf((y[j] - p[j]) * inverse, rule);
    z[j] = Decoded(p[j], step, levels[j]);
  }
}

RISKKV_INLINE void DequantiseBody(const int32_t* __restrict levels, const float* __restrict p, float step, int n,
                                  float* __restrict z) {
  for (int j = 0; j < n; ++j) z[j] = Decoded(p[j], step, levels[j]);
}

RISKKV_AVX2 void CentreAvx2(const float* mean, float inverse_scale, int n, float* row) {
  CentreBody(mean, inverse_scale, n, row);
}
RISKKV_AVX2 void RestoreAvx2(const float* mean, float scale, int n, float* row) { RestoreBody(mean, scale, n, row); }
RISKKV_AVX2 void QuantiseAvx2(const float* y, const float* p, float step, LevelRule rule, int n, int32_t* levels,
                              float* z) {
  QuantiseBody(y, p, step, rule, n, levels, z);
}
RISKKV_AVX2 void DequantiseAvx2(const int32_t* levels, const float* p, float step, int n, float* z) {
  DequantiseBody(levels, p, step, n, z);
}

}  // namespace

void CentreRow(const float* mean, float inverse_scale, int n, float* row) {
  HasAvx2() ? CentreAvx2(mean, inverse_scale, n, row) : CentreBody(mean, inverse_scale, n, row);
}

void RestoreRow(const float* mean, float scale, int n, float* row) {
  HasAvx2() ? RestoreAvx2(mean, scale, n, row) : RestoreBody(mean, scale, n, row);
}

void QuantiseRow(const float* y, const float* p, float step, LevelRule rule, int n, int32_t* levels, float* z) {
  HasAvx2() ? QuantiseAvx2(y, p, step, rule, n, levels, z) : QuantiseBody(y, p, step, rule, n, levels, z);
}

void DequantiseRow(const int32_t* levels, const float* p, float step, int n, float* z) {
  HasAvx2() ? DequantiseAvx2(levels, p, step, n, z) : DequantiseBody(levels, p, step, n, z);
}

// By blocks that stay in the nearest cache.
void TransposeLevels(const int32_t* in, int rows, int columns, int32_t* out) {
  constexpr int kBlock = 16;
  for (int i0 = 0; i0 < rows; i0 += kBlock) {
    const int i1 = std::min(rows, i0 + kBlock);
    for (int j0 = 0; j0 < columns; j0 += kBlock) {
      const int j1 = std::min(columns, j0 + kBlock);
      for (int j = j0; j < j1; ++j) {
        for (int i = i0; i < i1; ++i)
          out[static_cast<std::size_t>(j) * rows + i] = in[static_cast<std::size_t>(i) * columns + j];
      }
    }
  }
}

}  // namespace riskkv::kernels

// The vectorised row work of the coded transforms, around the matrix product.
#ifndef RISKKV_KERNELS_CPU_CODEC_ROWS_H_
#define RISKKV_KERNELS_CPU_CODEC_ROWS_H_

#include <cstdint>

#include "kernels/codec_elements.h"

namespace riskkv::kernels {

// row = (row - mean) * inverse_scale
void CentreRow(const float* mean, float inverse_scale, int n, float* row);

// row = mean + scale * row
void RestoreRow(const float* mean, float scale, int n, float* row);

// Levels of y given p, and what a decoder has: z = p + step * level.
void QuantiseRow(const float* y, const float* p, float step, LevelRule rule, int n, int32_t* levels, float* z);

// z = p + step * level
void DequantiseRow(const int32_t* levels, const float* p, float step, int n, float* z);

// out [columns, rows] from in [rows, columns].
void TransposeLevels(const int32_t* in, int rows, int columns, int32_t* out);

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CPU_CODEC_ROWS_H_

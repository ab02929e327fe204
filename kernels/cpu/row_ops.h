// The vectorised row work around the matrix product. A row is one token's kv elements of one layer.
#ifndef RISKKV_KERNELS_CPU_ROW_OPS_H_
#define RISKKV_KERNELS_CPU_ROW_OPS_H_

#include <cstddef>

#include "kernels/plan.h"

namespace riskkv::kernels {

enum class Turn { kForward, kInverse };

// Turns every head of a row of keys in place. cosine and sine have shape.half() entries, for the token's position.
void RotateRow(const HeadShape& shape, Turn turn, const float* cosine, const float* sine, float* row);

// row[i] += bias[i]
void AddBias(const float* bias, float* row, std::size_t n);

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CPU_ROW_OPS_H_

// The packed kernels. Call only what the processor has.
#ifndef RISKKV_KERNELS_CPU_GEMM_X86_H_
#define RISKKV_KERNELS_CPU_GEMM_X86_H_

#include "kernels/cpu/gemm.h"

namespace riskkv::kernels {

inline constexpr int kAvx512Columns = 32;
inline constexpr int kAvx2Columns = 16;

bool HasAvx512Gemm();
bool HasAvx2Gemm();
void GemmAvx512(const PackedB& b, const float* x, const TileRows& rows, float* z);
void GemmAvx2(const PackedB& b, const float* x, const TileRows& rows, float* z);

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CPU_GEMM_X86_H_

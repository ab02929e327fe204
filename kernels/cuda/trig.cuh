// Cosines and sines of one block's position in shared memory.
#ifndef RISKKV_KERNELS_CUDA_TRIG_CUH_
#define RISKKV_KERNELS_CUDA_TRIG_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/elements.h"

namespace riskkv::kernels {

inline std::size_t TrigBytes(const Rotary& rope) { return sizeof(float) * rope.rotary_dim; }

// Shared by all layers and heads of the block's token. The angle is reduced in double precision, two dozen instructions
// a pair, because fp32 loses it at long contexts; sincosf of a reduced angle is accurate to two steps.
__device__ inline void FillTrig(const Rotary& rope, int32_t position, float* cosine, float* sine) {
  for (int i = threadIdx.x; i < rope.rotary_dim / 2; i += blockDim.x) {
    sincosf(static_cast<float>(RopeAngle(position, rope.frequency[i])), &sine[i], &cosine[i]);
  }
  __syncthreads();
}

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_TRIG_CUH_

// A predictor set on the device.
#ifndef RISKKV_KERNELS_CUDA_CUDA_SET_H_
#define RISKKV_KERNELS_CUDA_CUDA_SET_H_

#include <memory>
#include <vector>

#include "kernels/cuda/buffers.h"
#include "kernels/plan.h"

namespace riskkv::kernels {

struct CudaGroup {
  DeviceBuffer b;     // fp16 [d_in, d_out]
  DeviceBuffer bias;  // fp32 [d_out]
};

// Immutable once made; freed when the last Rebuild that holds it has ended.
struct CudaSet {
  SetShape shape;
  DeviceBuffer frequency;  // double [rotary_dim / 2]
  std::vector<CudaGroup> groups;
};

using CudaSetRef = std::shared_ptr<const CudaSet>;

// Radians per position and pair. kInvalidArgument when there are more than the kernels have room for.
Status CopyFrequencies(const RopeParams& rope, const HeadShape& heads, DeviceBuffer* to);

// Checks and copies. fp32 weights are rounded to fp16; one beyond fp16's range is kInvalidArgument, with its group,
// place and value. Throws std::bad_alloc.
Status MakeCudaSet(const PredictorSetView& view, CudaSetRef* set);

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_CUDA_SET_H_

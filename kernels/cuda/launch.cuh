// Launchers of the two kernels around the product. They only enqueue; errors are the launch's.
#ifndef RISKKV_KERNELS_CUDA_LAUNCH_CUH_
#define RISKKV_KERNELS_CUDA_LAUNCH_CUH_

#include <cuda_runtime_api.h>

#include "kernels/cuda/elements.h"

namespace riskkv::kernels {

// The kernels keep a row of cosines and sines in shared memory; more than this does not fit everywhere.
inline constexpr int kMaxCudaRotaryDim = 8192;

// X rows of the args' tokens; other rows are left as they are.
cudaError_t LaunchGather(const GatherArgs& args, cudaStream_t stream);

// Targets of the args' tokens. *first_bad must be kNoneBad before.
cudaError_t LaunchFinish(const FinishArgs& args, cudaStream_t stream);

// cudaErrorNoKernelImageForDevice when this build has no code for the current device.
cudaError_t ProbeKernels();

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_LAUNCH_CUH_

// Launchers of the kernels around a codec's products. They only enqueue; errors are the launch's.
#ifndef RISKKV_KERNELS_CUDA_CODEC_LAUNCH_CUH_
#define RISKKV_KERNELS_CUDA_CODEC_LAUNCH_CUH_

#include <cuda_runtime_api.h>

#include "kernels/cuda/codec_args.h"

namespace riskkv::kernels {

// Cells to rows before RoPE in units of their scale; rows without a token are left as they are, here and below.
cudaError_t LaunchCentre(const CentreArgs& args, cudaStream_t stream);

// Levels and z from y and p.
cudaError_t LaunchQuantise(const LevelArgs& args, cudaStream_t stream);

// z from levels and p.
cudaError_t LaunchDequantise(const LevelArgs& args, cudaStream_t stream);

// Rows back to cells. *first_bad must be kNoneBad before the first.
cudaError_t LaunchRestore(const RestoreArgs& args, cudaStream_t stream);

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_CODEC_LAUNCH_CUH_

#include "kernels/cuda/queue.h"

#include <cstddef>

namespace riskkv::kernels {
namespace {

// What NVIDIA advises for Hopper; less makes cuBLAS pick other algorithms.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

}  // namespace

Status DeviceQueue::Init() {
  RISKKV_CUDA_RETURN(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  RISKKV_CUBLAS_RETURN(cublasCreate(&cublas_));
  RISKKV_CUBLAS_RETURN(cublasSetStream(cublas_, stream_));
  // After the stream: setting a stream takes the workspace away again.
  RISKKV_RETURN(workspace_.Reserve(kWorkspaceBytes));
  RISKKV_CUBLAS_RETURN(cublasSetWorkspace(cublas_, workspace_.data(), kWorkspaceBytes));
  // Partial sums of a split product stay fp32.
  RISKKV_CUBLAS_RETURN(cublasSetMathMode(
      cublas_, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
  return Status();
}

DeviceQueue::~DeviceQueue() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  if (cublas_ != nullptr) cublasDestroy(cublas_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

}  // namespace riskkv::kernels

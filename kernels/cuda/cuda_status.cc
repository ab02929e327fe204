#include "kernels/cuda/cuda_status.h"

#include <string>

namespace riskkv::kernels {
namespace {

Code CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return Code::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorDevicesUnavailable:
      return Code::kUnavailable;
    default:
      return Code::kInternal;
  }
}

Code CodeOf(cublasStatus_t error) {
  if (error == CUBLAS_STATUS_ALLOC_FAILED) return Code::kResourceExhausted;
  return error == CUBLAS_STATUS_NOT_INITIALIZED ? Code::kUnavailable : Code::kInternal;
}

}  // namespace

Status CudaStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return Status();
  return Status(CodeOf(error), std::string(what) + ": " + cudaGetErrorName(error) + " (" +
                                   std::to_string(static_cast<int>(error)) + "): " + cudaGetErrorString(error));
}

Status CublasStatus(cublasStatus_t error, const char* what) {
  if (error == CUBLAS_STATUS_SUCCESS) return Status();
  return Status(CodeOf(error), std::string(what) + ": " + cublasGetStatusName(error) + " (" +
                                   std::to_string(static_cast<int>(error)) + ")");
}

}  // namespace riskkv::kernels

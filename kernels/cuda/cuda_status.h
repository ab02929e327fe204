// CUDA's and cuBLAS's errors as Status.
#ifndef RISKKV_KERNELS_CUDA_CUDA_STATUS_H_
#define RISKKV_KERNELS_CUDA_CUDA_STATUS_H_

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "kernels/status.h"

namespace riskkv::kernels {

// `what` is the call or the thing it was for. Out of memory is kResourceExhausted; no device, no driver and no code for
// the device are kUnavailable; the rest is kInternal. The error's name, number and text are in the message.
Status CudaStatus(cudaError_t error, const char* what);
Status CublasStatus(cublasStatus_t error, const char* what);

#define RISKKV_CUDA_RETURN(call)                                                          \
  do {                                                                                    \
    if (const cudaError_t error_ = (call); error_ != cudaSuccess)                         \
      return ::riskkv::kernels::CudaStatus(error_, #call);                                \
  } while (false)

#define RISKKV_CUBLAS_RETURN(call)                                                        \
  do {                                                                                    \
    if (const cublasStatus_t error_ = (call); error_ != CUBLAS_STATUS_SUCCESS)            \
      return ::riskkv::kernels::CublasStatus(error_, #call);                              \
  } while (false)

#define RISKKV_RETURN(expression)                                                         \
  do {                                                                                    \
    if (::riskkv::kernels::Status status_ = (expression); !status_.ok()) return status_;  \
  } while (false)

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_CUDA_STATUS_H_

// A stream and the cuBLAS handle that works on it.
#ifndef RISKKV_KERNELS_CUDA_QUEUE_H_
#define RISKKV_KERNELS_CUDA_QUEUE_H_

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/buffers.h"
#include "kernels/cuda/cuda_status.h"

namespace riskkv::kernels {

// The device in use: CUDA_VISIBLE_DEVICES chooses which that is.
inline constexpr int kCudaDevice = 0;

// A handle and a workspace of its own are what cuBLAS asks for to give the same bits while other streams are busy.
// Thread contract: one caller at a time.
class DeviceQueue {
 public:
  DeviceQueue() = default;
  ~DeviceQueue();
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  Status Init();
  cudaStream_t stream() const { return stream_; }
  cublasHandle_t cublas() const { return cublas_; }

 private:
  cudaStream_t stream_ = nullptr;
  cublasHandle_t cublas_ = nullptr;
  DeviceBuffer workspace_;
};

// An event to wait for. Waiting blocks: a waiting thread sleeps, and leaves the core to the decode loop.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  ~DeviceEvent() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;

  Status Init() {
    RISKKV_CUDA_RETURN(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync));
    return Status();
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_QUEUE_H_

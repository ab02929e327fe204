// Device and pinned memory that frees itself and only ever grows.
#ifndef RISKKV_KERNELS_CUDA_BUFFERS_H_
#define RISKKV_KERNELS_CUDA_BUFFERS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cuda/cuda_status.h"

namespace riskkv::kernels {

struct FreeDevice {
  void operator()(uint8_t* p) const { cudaFree(p); }
};
struct FreePinned {
  void operator()(uint8_t* p) const { cudaFreeHost(p); }
};

inline cudaError_t Allocate(std::size_t bytes, FreeDevice, void** p) { return cudaMalloc(p, bytes); }
inline cudaError_t Allocate(std::size_t bytes, FreePinned, void** p) {
  return cudaHostAlloc(p, bytes, cudaHostAllocDefault);
}

template <typename Free>
class Buffer {
 public:
  // Contents are lost when it grows. Nothing in flight may use the buffer then.
  Status Reserve(std::size_t bytes) {
    if (bytes <= size_) return Status();
    data_.reset();
    size_ = 0;
    void* p = nullptr;
    RISKKV_CUDA_RETURN(Allocate(bytes, Free(), &p));
    data_.reset(static_cast<uint8_t*>(p));
    size_ = bytes;
    return Status();
  }

  std::size_t size() const { return size_; }
  uint8_t* data() const { return data_.get(); }
  template <typename T>
  T* as(std::size_t byte_offset = 0) const {
    return reinterpret_cast<T*>(data_.get() + byte_offset);
  }

 private:
  std::unique_ptr<uint8_t, Free> data_;
  std::size_t size_ = 0;
};

using DeviceBuffer = Buffer<FreeDevice>;
using PinnedBuffer = Buffer<FreePinned>;

// Synchronous, from pageable memory: uploads are off the path.
template <typename T>
Status CopyToDevice(const T* from, std::size_t n, DeviceBuffer* to) {
  RISKKV_RETURN(to->Reserve(n * sizeof(T)));
  RISKKV_CUDA_RETURN(cudaMemcpy(to->data(), from, n * sizeof(T), cudaMemcpyHostToDevice));
  return Status();
}

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_BUFFERS_H_

// A float buffer on a cache line that only ever grows: workspaces stop allocating once warm.
#ifndef RISKKV_KERNELS_CPU_ALIGNED_BUFFER_H_
#define RISKKV_KERNELS_CPU_ALIGNED_BUFFER_H_

#include <cstddef>
#include <memory>
#include <new>

namespace riskkv::kernels {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t n) { Reserve(n); }

  // Contents are lost when it grows. Throws std::bad_alloc, which the backend turns into kResourceExhausted.
  void Reserve(std::size_t n) {
    if (n <= size_) return;
    data_.reset(static_cast<float*>(::operator new(n * sizeof(float), kAlign)));
    size_ = n;
  }
  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kAlign{64};
  struct Free {
    void operator()(float* p) const { ::operator delete(p, kAlign); }
  };
  std::unique_ptr<float, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CPU_ALIGNED_BUFFER_H_

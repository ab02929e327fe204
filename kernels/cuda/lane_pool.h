// Lanes that callers take in turn: up to kMaxLanes run side by side, more wait.
#ifndef RISKKV_KERNELS_CUDA_LANE_POOL_H_
#define RISKKV_KERNELS_CUDA_LANE_POOL_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_status.h"

namespace riskkv::kernels {

// Thread-safe. T has `static Status Create(std::unique_ptr<T>*)`.
template <typename T>
class LanePool {
 public:
  static constexpr int kMaxLanes = 4;

  Status Take(std::unique_ptr<T>* lane) {
    std::unique_lock<std::mutex> lock(mutex_);
    freed_.wait(lock, [this] { return !free_.empty() || n_lanes_ < kMaxLanes; });
    if (!free_.empty()) {
      *lane = std::move(free_.back());
      free_.pop_back();
      return Status();
    }
    RISKKV_RETURN(T::Create(lane));
    ++n_lanes_;
    free_.reserve(kMaxLanes);
    return Status();
  }

  void Return(std::unique_ptr<T> lane) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      free_.push_back(std::move(lane));
    }
    freed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<T>> free_;  // guarded by mutex_
  int n_lanes_ = 0;                       // guarded by mutex_; free or not
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_LANE_POOL_H_

// The CUDA backend. Host code; only the module libriskkv_cuda.so is built from it.
#ifndef RISKKV_KERNELS_CUDA_CUDA_BACKEND_H_
#define RISKKV_KERNELS_CUDA_CUDA_BACKEND_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/cuda_set.h"
#include "kernels/cuda/lane.h"

namespace riskkv::kernels {

// Thread contract: as Backend's. Up to kMaxLanes Rebuilds run side by side, each on a stream of its own; more wait.
class CudaBackend final : public Backend {
 public:
  // kUnavailable when no device answers or this build has no code for it. Uses device 0: CUDA_VISIBLE_DEVICES chooses.
  static Status Create(std::unique_ptr<Backend>* backend);

  const DeviceInfo& info() const override { return info_; }
  Status Upload(const PredictorSetView& view, SetHandle* handle) override;
  Status Release(SetHandle handle) override;
  Status Rebuild(const std::vector<RebuildJob>& jobs) override;

 private:
  static constexpr int kDevice = 0;
  static constexpr int kMaxLanes = 4;

  CudaBackend() = default;
  Status Init();
  Status TakeLane(std::unique_ptr<Lane>* lane);
  void ReturnLane(std::unique_ptr<Lane> lane);
  Status RebuildOn(Lane* lane, const std::vector<RebuildJob>& jobs);

  DeviceInfo info_;

  std::mutex sets_mutex_;
  SetHandle next_handle_ = 1;             // guarded by sets_mutex_
  std::map<SetHandle, CudaSetRef> sets_;  // guarded by sets_mutex_
  SlotSizes sizes_;                       // guarded by sets_mutex_; of every set ever uploaded

  std::mutex lanes_mutex_;
  std::condition_variable lane_free_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // guarded by lanes_mutex_; the free ones
  int n_lanes_ = 0;                           // guarded by lanes_mutex_; free or not
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_CUDA_BACKEND_H_

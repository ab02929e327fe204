// The CUDA backend. Host code; only the module libriskkv_cuda.so is built from it.
#ifndef RISKKV_KERNELS_CUDA_CUDA_BACKEND_H_
#define RISKKV_KERNELS_CUDA_CUDA_BACKEND_H_

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/cuda_codec_backend.h"
#include "kernels/cuda/cuda_set.h"
#include "kernels/cuda/lane.h"
#include "kernels/cuda/lane_pool.h"

namespace riskkv::kernels {

// Thread contract: as Backend's. Up to LanePool::kMaxLanes Rebuilds run side by side, each on a stream of its own.
class CudaBackend final : public Backend {
 public:
  // kUnavailable when no device answers or this build has no code for it. Uses kCudaDevice.
  static Status Create(std::unique_ptr<Backend>* backend);

  const DeviceInfo& info() const override { return info_; }
  Status Upload(const PredictorSetView& view, SetHandle* handle) override;
  Status Release(SetHandle handle) override;
  Status Rebuild(const std::vector<RebuildJob>& jobs) override;
  CodecBackend& codec() override { return codec_; }

 private:
  CudaBackend() = default;
  Status Init();
  Status RebuildOn(Lane* lane, const std::vector<RebuildJob>& jobs);

  DeviceInfo info_;
  CudaCodecBackend codec_;

  std::mutex sets_mutex_;
  SetHandle next_handle_ = 1;             // guarded by sets_mutex_
  std::map<SetHandle, CudaSetRef> sets_;  // guarded by sets_mutex_
  SlotSizes sizes_;                       // guarded by sets_mutex_; of every set ever uploaded

  LanePool<Lane> lanes_;
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_CUDA_BACKEND_H_

// One caller's way through the device: a queue and a few slots of staging.
#ifndef RISKKV_KERNELS_CUDA_LANE_H_
#define RISKKV_KERNELS_CUDA_LANE_H_

#include <memory>
#include <vector>

#include "kernels/cuda/buffers.h"
#include "kernels/cuda/chunk.h"
#include "kernels/cuda/cuda_set.h"
#include "kernels/cuda/queue.h"

namespace riskkv::kernels {

// Bytes that a slot needs for the largest chunk of some groups.
struct SlotSizes {
  std::size_t in = 0, x = 0, z = 0, out = 0;
  void Include(const SetShape& shape);
};

// Thread contract: one caller at a time.
class Lane {
 public:
  static Status Create(std::unique_ptr<Lane>* lane);

  // Grows every slot to these sizes.
  Status Reserve(const SlotSizes& sizes);

  // Runs checked jobs; sets()[j] is the j-th job's. While the device works on one chunk the host fills the next. After
  // a non-finite result the other chunks are still run; after a CUDA error nothing more is.
  Status Run(const std::vector<RebuildJob>& jobs);

  // The sets of the jobs, kept here so that their vector is allocated once.
  std::vector<CudaSetRef>& sets() { return sets_; }

 private:
  struct Slot {
    PinnedBuffer in_host, out_host;
    DeviceBuffer in, x, z, out;
    DeviceEvent done;
    const Chunk* chunk = nullptr;  // in flight, or null
  };

  static constexpr int kSlots = 3;

  Lane() = default;
  Status Init();
  Status Start(const RebuildJob& job, const CudaSet& set, const Chunk& chunk, Slot* slot);
  Status Multiply(const GroupShape& shape, const CudaGroup& group, int n_tiles, const Slot& slot);
  Status Finish(const std::vector<RebuildJob>& jobs, Slot* slot, Status* result);
  Status RunChunks(const std::vector<RebuildJob>& jobs, Status* result);

  Slot slots_[kSlots];
  DeviceQueue queue_;  // after what its work uses: it waits for that when it goes
  std::vector<CudaSetRef> sets_;
  std::vector<Tile> tiles_;
  std::vector<Chunk> chunks_;
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_LANE_H_

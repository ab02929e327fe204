// From sealed segments to a block of all layers: rebuild, and compare with the probe. Off the engine's thread.
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_REBUILD_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_REBUILD_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "services/worker/core/move_types.h"
#include "services/worker/core/predictor_store.h"

namespace riskkv::worker {

// A segment's bytes, sealed.
struct SealedSegment {
  Segment segment;
  std::vector<uint16_t> data;
};

// One attempt's; not thread-safe. Keeps the set on the device while it lives.
class BlockAssembler {
 public:
  // `set` and `profile` are null but in RISK; `profile` points into the set.
  BlockAssembler(KvLayout layout, std::shared_ptr<const LoadedSet> set, const Profile* profile, kernels::Backend* backend);

  // All layers of the cells' range. DATA_LOSS (VERIFY_GATE) when the rebuild differs too much from the probe; INTERNAL from the backend.
  absl::StatusOr<KvBlock> Assemble(SealedSegment cells, const std::optional<SealedSegment>& probe);

  double rebuild_ms() const { return rebuild_ms_; }
  double probe_ratio() const { return probe_ratio_; }  // worst block's worst layer: error over bound
  int64_t tokens_rebuilt() const { return tokens_rebuilt_; }
  int64_t tokens_exact() const { return tokens_exact_; }

 private:
  absl::Status Compare(const KvBlock& rebuilt, const SealedSegment& probe);

  const KvLayout layout_;
  const std::shared_ptr<const LoadedSet> set_;
  const Profile* const profile_;
  kernels::Backend* const backend_;
  double rebuild_ms_ = 0;
  double probe_ratio_ = 0;
  int64_t tokens_rebuilt_ = 0;
  int64_t tokens_exact_ = 0;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_REBUILD_H_

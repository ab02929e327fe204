// From sealed segments to a block of all layers: rebuild or decode, and compare with the probe. Off the engine's thread.
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_REBUILD_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_REBUILD_H_

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "services/worker/core/move_coded.h"
#include "services/worker/core/move_types.h"
#include "services/worker/core/predictor_store.h"

namespace riskkv::worker {

// A segment's bytes, sealed: see SegmentBuffer::Take.
struct SealedSegment {
  Segment segment;
  std::vector<uint16_t> data;
  std::string_view bytes() const { return {reinterpret_cast<const char*>(data.data()), static_cast<std::size_t>(segment.bytes)}; }
};

// One attempt's; not thread-safe. Keeps the set on the device while it lives.
class BlockAssembler {
 public:
  // `set` and `profile` are null but in RISK, where `profile` points into the set; `coded` is null but in CODED.
  BlockAssembler(KvLayout layout, std::shared_ptr<const LoadedSet> set, const Profile* profile, std::shared_ptr<const CodedMove> coded,
                 kernels::Backend* backend);

  // All layers of the cells' range. DATA_LOSS (VERIFY_GATE) when what was rebuilt or decoded differs too much from
  // the probe; DecodeCells' errors; INTERNAL from the backend.
  absl::StatusOr<KvBlock> Assemble(SealedSegment cells, const std::optional<SealedSegment>& probe);

  double rebuild_ms() const { return rebuild_ms_; }
  double decode_ms() const { return decode_ms_; }
  double probe_ratio() const { return probe_ratio_; }  // worst block's worst layer or unit: error over bound
  int64_t tokens_rebuilt() const { return tokens_rebuilt_; }
  int64_t tokens_exact() const { return tokens_exact_; }
  int64_t tokens_coded() const { return tokens_coded_; }

 private:
  absl::StatusOr<KvBlock> Decode(const SealedSegment& cells, const std::optional<SealedSegment>& probe);
  ProbeRows Rows(const SealedSegment& probe) const;
  absl::Status Compare(const KvBlock& rebuilt, const SealedSegment& probe);

  const KvLayout layout_;
  const std::shared_ptr<const LoadedSet> set_;
  const Profile* const profile_;
  const std::shared_ptr<const CodedMove> coded_;
  kernels::Backend* const backend_;
  CodecScratch scratch_;
  double rebuild_ms_ = 0;
  double decode_ms_ = 0;
  double probe_ratio_ = 0;
  int64_t tokens_rebuilt_ = 0;
  int64_t tokens_exact_ = 0;
  int64_t tokens_coded_ = 0;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_REBUILD_H_

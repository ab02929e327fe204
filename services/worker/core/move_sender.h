// Ships ranges of one request's cells to its destination: export, digest, declare, push.
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_SENDER_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_SENDER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/predictor/rebuild.h"
#include "services/worker/core/move_pace.h"
#include "services/worker/core/move_peers.h"
#include "services/worker/core/move_plan.h"
#include "services/worker/core/request_manager.h"

namespace riskkv::worker {

struct SendTerms {
  Fence fence;
  std::string predictor_set;
  std::string profile;
  ShipPolicy policy;
  int64_t max_batch_bytes = 16 << 20;                  // exported, declared and pushed at once
  absl::Duration no_progress = absl::Seconds(5);       // a destination that takes or appends nothing for so long is given up
};

// Not thread-safe: the move's thread. All pointers outlive it. Calls end with CANCELLED soon after `cancel` is.
class RoundSender {
 public:
  RoundSender(SendTerms terms, RequestManager* manager, DestinationPeer* peer, Cancellation* cancel);

  // Ships [frontier, upto) of the request as `snapshot` has it; cells below body_end without the omitted layers, or coded, where the policy
  // says so. `last`: nothing follows but Final. Returns what it took.
  absl::StatusOr<RoundSample> Send(const RequestSnapshot& snapshot, int64_t upto, int64_t body_end, bool last);
  // Waits until everything sent is in the destination's cache. Also the way to renew its lease.
  absl::Status Settle(RoundSample& sample);

  int64_t frontier() const { return frontier_; }
  int64_t bytes_sent() const { return bytes_sent_; }
  int64_t tokens_omitted() const { return tokens_omitted_; }
  absl::Duration transfer() const { return transfer_; }
  absl::Duration encode() const { return encode_; }  // CODED

 private:
  struct Batch {
    RoundManifest manifest;
    std::vector<KvBlock> cells;        // what the payloads borrow
    std::vector<ProbeRows> probes;
    std::vector<std::string> coded;
    std::vector<SegmentPayload> payloads;
    int64_t bytes = 0;
  };

  // CODED: the next batch is coded while this one is on its way.
  absl::Status ShipAll(const std::vector<BlockPlan>& blocks, const RequestSnapshot& snapshot, bool last, RoundSample& sample);
  bool Full(const Batch& batch) const;
  absl::StatusOr<Batch> Export(const std::vector<BlockPlan>& blocks, std::size_t& next);
  absl::Status AddBlock(const BlockPlan& plan, Batch& batch);
  void AddSegment(Segment segment, std::string_view bytes, Batch& batch);
  absl::Status Ship(Batch& batch, const RequestSnapshot& snapshot, RoundSample& sample);
  absl::Status Declare(const RoundManifest& manifest, RoundSample& sample);
  absl::Status PushAll(const Batch& batch, RoundSample& sample);

  const SendTerms terms_;
  RequestManager* const manager_;
  DestinationPeer* const peer_;
  Cancellation* const cancel_;
  int64_t frontier_ = 0;
  uint32_t round_ = 0;
  uint32_t last_segment_ = 0;
  int64_t bytes_sent_ = 0;
  int64_t tokens_omitted_ = 0;
  absl::Duration transfer_;
  CodecScratch scratch_;
  absl::Duration encode_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_SENDER_H_

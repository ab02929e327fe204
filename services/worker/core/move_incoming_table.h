// All attempts of which this worker is the destination: fences, leases, tombstones (protocol.md 4).
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_INCOMING_TABLE_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_INCOMING_TABLE_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "services/worker/core/move_incoming.h"

namespace riskkv::worker {

struct IncomingOptions {
  std::string boot_id;
  int max_moves = 8;                         // at once
  int64_t max_staged_bytes = 1LL << 30;      // received, not yet appended
  std::size_t max_tombstones = 10000;
  absl::Duration tombstone_age = absl::Minutes(30);
  ManifestLimits limits;
  absl::Duration first_retry = absl::Milliseconds(50);  // of questions to the authority, doubled ...
  absl::Duration last_retry = absl::Seconds(1);         // ... up to this
};

// Threading: thread-safe. Calls block only where IncomingMove's do. A thread of its own expires leases and buries ended attempts.
// Errors carry side "destination". UNKNOWN_ATTEMPT (NOT_FOUND) for one that was never reserved here, STALE_FENCE (FAILED_PRECONDITION)
// for a lower one than was seen, BOOT_ID_CHANGED for one that means another boot of this worker, ALREADY_COMMITTED for one that ended
// with this worker as the owner; an attempt that failed goes on answering with its error.
class IncomingMoves {
 public:
  // All pointers outlive it; `authority` may be null.
  IncomingMoves(IncomingOptions options, RequestManager* manager, PredictorStore* predictors, DecisionAuthority* authority,
                const Clock* clock, Logger log);
  // Stops every attempt where it stands; nothing is decided.
  ~IncomingMoves();

  // Cells held for the attempt. Idempotent by fence. A higher attempt of the same migration ends a lower one that is not PREPARED.
  absl::StatusOr<int64_t> Reserve(const ReserveParams& params);
  absl::StatusOr<RoundReply> DeclareRound(const RoundManifest& manifest);
  // One stream of frames: Accept each, then Finish.
  class Push {
   public:
    explicit Push(IncomingMoves* moves) : moves_(moves) {}
    absl::Status Accept(const Frame& frame);
    absl::StatusOr<PushReply> Finish();

   private:
    IncomingMoves* const moves_;
    std::shared_ptr<IncomingMove> move_;
    PushReply reply_;
  };
  absl::StatusOr<FinalReply> Final(const FinalRequest& request);
  // False: nothing was held for the attempt.
  bool Abort(const Fence& fence, const absl::Status& reason);
  bool Decide(const Fence& fence, const DecisionInfo& decision);
  AttemptInfo Query(const Fence& fence) const;

  int active() const;
  int64_t stale_refusals() const { return stale_; }
  int64_t staged_bytes() const { return staging_.used(); }
  const std::string& boot_id() const { return options_.boot_id; }

 private:
  using Key = std::pair<std::string, uint32_t>;  // migration, attempt
  struct Tombstone {
    Fence fence;
    AttemptInfo info;
    absl::Duration at;
  };

  absl::Status CheckNew(const Fence& fence);
  absl::Status CheckBoot(const Fence& fence);
  absl::Status CheckOrder(const Fence& fence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::shared_ptr<IncomingMove>> Find(const Fence& fence);
  absl::StatusOr<std::shared_ptr<IncomingMove>> FindFrame(const Frame& frame);
  // Why no attempt is held under this key; counts a lower one than was seen.
  absl::Status Missing(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Stale(std::string message);
  void Sweep();
  void Bury(std::vector<std::shared_ptr<IncomingMove>> ended);

  const IncomingOptions options_;
  StagingBudget staging_;
  IncomingContext context_;
  std::atomic<int64_t> stale_{0};
  mutable Mutex mu_;
  CondVar wake_;
  std::map<Key, std::shared_ptr<IncomingMove>> moves_ ABSL_GUARDED_BY(mu_);
  std::map<Key, Tombstone> tombstones_ ABSL_GUARDED_BY(mu_);
  std::deque<Key> burial_order_ ABSL_GUARDED_BY(mu_);
  uint64_t leader_term_ ABSL_GUARDED_BY(mu_) = 0;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread sweeper_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_INCOMING_TABLE_H_

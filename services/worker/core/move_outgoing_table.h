// All attempts of which this worker is the source.
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_OUTGOING_TABLE_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_OUTGOING_TABLE_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "services/worker/core/move_outgoing.h"

namespace riskkv::worker {

struct OutgoingOptions {
  std::string boot_id;
  int max_moves = 8;                 // at once
  std::size_t max_ended = 10000;     // remembered attempts
  absl::Duration resolve_every = absl::Milliseconds(200);  // grows ...
  absl::Duration resolve_last = absl::Seconds(2);          // ... up to this
  absl::Duration no_progress = absl::Seconds(5);           // see SendTerms
  int64_t max_batch_bytes = 16 << 20;
};

// Threading: thread-safe. Errors carry side "source".
class OutgoingMoves {
 public:
  // All pointers outlive it; `predictors` and `authority` may be null, `report` empty.
  OutgoingMoves(OutgoingOptions options, RequestManager* manager, PredictorStore* predictors, DecisionAuthority* authority,
                PeerFactory connect, const Clock* clock, Logger log, std::function<void(const TransferResult&)> report = {});
  // Stops every attempt where it stands; nothing is decided.
  ~OutgoingMoves();

  // Starts the attempt, or joins it when it is under way. STALE_FENCE for a lower one than was seen, BOOT_ID_CHANGED, and Create's.
  absl::StatusOr<std::shared_ptr<OutgoingMove>> Start(const StartMoveParams& params);
  // False: nothing was held for the attempt.
  bool Decide(const Fence& fence, const DecisionInfo& decision);
  AttemptInfo Query(const Fence& fence);
  int active();
  int64_t stale_refusals() const { return stale_; }

 private:
  using Key = std::pair<std::string, uint32_t>;  // migration, attempt

  absl::Status CheckFence(const Fence& fence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Bury() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const OutgoingOptions options_;
  std::atomic<int64_t> commit_us_{15000};
  std::atomic<int64_t> stale_{0};
  OutgoingContext context_;
  Mutex mu_;
  std::map<Key, std::shared_ptr<OutgoingMove>> moves_ ABSL_GUARDED_BY(mu_);
  std::map<Key, AttemptInfo> ended_ ABSL_GUARDED_BY(mu_);
  std::deque<Key> ended_order_ ABSL_GUARDED_BY(mu_);
  uint64_t leader_term_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_OUTGOING_TABLE_H_

// One attempt at its destination: takes rounds, rebuilds and appends block by block, is PREPARED, and follows the decision
// (protocol.md 2.3 to 2.10). gRPC-free.
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_INCOMING_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_INCOMING_H_

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/obs/log.h"
#include "services/worker/core/move_manifest.h"
#include "services/worker/core/move_peers.h"
#include "services/worker/core/move_rebuild.h"
#include "services/worker/core/move_segment.h"
#include "services/worker/core/move_types.h"
#include "services/worker/core/predictor_store.h"
#include "services/worker/core/request_manager.h"

namespace riskkv::worker {

// Bytes that wait to be rebuilt and appended, over all attempts of a worker. Thread-safe.
class StagingBudget {
 public:
  explicit StagingBudget(int64_t limit) : limit_(limit) {}
  // RESOURCE_EXHAUSTED (STAGING_FULL): the source waits and asks again.
  absl::Status Take(int64_t bytes);
  void Give(int64_t bytes) { used_ -= bytes; }
  int64_t used() const { return used_; }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
};

// The outside world of incoming attempts; everything outlives them.
struct IncomingContext {
  std::string boot_id;
  RequestManager* manager = nullptr;
  PredictorStore* predictors = nullptr;
  DecisionAuthority* authority = nullptr;  // may be null: only Decide decides then
  const Clock* clock = nullptr;
  Logger log;
  ManifestLimits limits;
  StagingBudget* staging = nullptr;
  absl::Duration first_retry = absl::Milliseconds(50);  // of questions to the authority, doubled ...
  absl::Duration last_retry = absl::Seconds(1);         // ... up to this
};

// Threading: thread-safe. A thread of its own rebuilds, appends, installs and asks for the decision; it alone frees what the attempt
// holds, once, when it ends. Errors are the attempt's: once it has failed, every call answers with that error.
class IncomingMove {
 public:
  // Checks fingerprint, mode, sampling, set and profile, and holds the room. The refusal names what does not fit.
  static absl::StatusOr<std::shared_ptr<IncomingMove>> Create(const IncomingContext& context, const ReserveParams& params);
  // Stops the thread without deciding anything.
  ~IncomingMove();

  absl::StatusOr<RoundReply> DeclareRound(const RoundManifest& manifest);
  // Adds the frame's bytes to `reply`.
  absl::Status Accept(const Frame& frame, PushReply& reply);
  // Cells below this are in the cache; the attempt's error when it failed.
  absl::StatusOr<int64_t> Progress();
  // Waits until everything is rebuilt, appended and installed. Asked again, it answers the same.
  absl::StatusOr<FinalReply> Final(const FinalRequest& request);
  // The source gave up before FINAL. Ignored once PREPARED.
  void Abort(const absl::Status& reason);
  // What the owner record says; doubled and late ones change nothing.
  void Decide(const DecisionInfo& decision);
  // Ends the attempt when its lease ran out and it is not yet FINAL.
  void ExpireLease(absl::Duration now);

  const Fence& fence() const { return fence_; }
  int64_t cells_reserved() const { return cells_reserved_; }
  AttemptInfo Info() const;
  // The thread has ended and everything is freed.
  bool done() const { return done_; }

 private:
  struct Work {
    uint32_t cells = 0;  // segment ids
    uint32_t probe = 0;
    int64_t upto = 0;    // the frontier after it
    int64_t staged = 0;  // bytes it holds of the staging budget
  };

  IncomingMove(const IncomingContext& context, const ReserveParams& params);
  absl::Status CheckReserve(const ReserveParams& params);

  // --- callers' side: move_incoming.cc ---
  void Renew() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Alive() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsRepeat(const RoundManifest& manifest) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Enqueue(const RoundManifest& manifest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CountLayers(const Segment& segment, int64_t offset, int64_t length) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckFinal(const FinalRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(absl::Status status);
  void FailLocked(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // --- the thread: move_incoming_worker.cc ---
  void Run();
  std::optional<Work> NextWork();
  bool Ready(const Work& work) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Apply(const Work& work);
  absl::Status ApplyCells(const Work& work);
  absl::Status Replay(const Work& work);
  absl::Status InstallHere();
  void FollowDecision();
  absl::StatusOr<DecisionInfo> AskAuthority(MoveState state);
  void Settle(const DecisionInfo& decision);
  void Commit(const DecisionInfo& decision) ABSL_EXCLUSIVE_LOCKS_REQUIRED(settle_mu_);
  void GiveUp(const DecisionInfo& decision) ABSL_EXCLUSIVE_LOCKS_REQUIRED(settle_mu_);
  void Finish();
  MoveState state() const;
  void SetState(MoveState state);

  const IncomingContext context_;
  const Fence fence_;
  const absl::Duration lease_;
  int64_t cells_reserved_ = 0;
  ReservationId reservation_;
  std::shared_ptr<const LoadedSet> set_;
  std::shared_ptr<const CodedMove> coded_;  // CODED
  std::unique_ptr<BlockAssembler> assembler_;  // the thread's

  Mutex settle_mu_;  // taken before mu_: one decision at a time
  mutable Mutex mu_;
  CondVar changed_;
  AttemptTerms terms_ ABSL_GUARDED_BY(mu_);
  MoveState state_ ABSL_GUARDED_BY(mu_) = MoveState::kReserved;
  absl::Status error_ ABSL_GUARDED_BY(mu_);
  absl::Duration lease_end_ ABSL_GUARDED_BY(mu_);
  std::map<uint32_t, SegmentBuffer> segments_ ABSL_GUARDED_BY(mu_);
  std::deque<Work> work_ ABSL_GUARDED_BY(mu_);
  std::vector<Token> history_ ABSL_GUARDED_BY(mu_);         // REPLAY
  std::vector<Provenance> rebuilt_ ABSL_GUARDED_BY(mu_);    // or decoded, by this attempt
  int64_t applied_ ABSL_GUARDED_BY(mu_) = 0;
  FinalReply reply_ ABSL_GUARDED_BY(mu_);
  std::optional<FinalRequest> final_ ABSL_GUARDED_BY(mu_);
  int64_t start_index_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t new_epoch_ ABSL_GUARDED_BY(mu_) = 0;
  std::shared_ptr<Cancellation> call_ ABSL_GUARDED_BY(mu_);  // to the authority, under way
  bool activated_ ABSL_GUARDED_BY(mu_) = false;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool installed_ = false;  // the thread's
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_INCOMING_H_

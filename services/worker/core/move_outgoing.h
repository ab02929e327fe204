// One attempt at its source: pre-copy while the request decodes, pause, final copy, and then whatever is decided
// (protocol.md 2.4 to 2.10). gRPC-free.
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_OUTGOING_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_OUTGOING_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/obs/log.h"
#include "services/worker/core/move_peers.h"
#include "services/worker/core/move_sender.h"
#include "services/worker/core/move_types.h"
#include "services/worker/core/predictor_store.h"
#include "services/worker/core/request_manager.h"

namespace riskkv::worker {

// What a transfer really achieved, for the link estimates.
struct TransferResult {
  std::string destination_id;
  int64_t bytes = 0;
  double seconds = 0;
  double rtt_seconds = 0;
};

// The outside world of outgoing attempts; everything outlives them.
struct OutgoingContext {
  std::string boot_id;
  RequestManager* manager = nullptr;
  PredictorStore* predictors = nullptr;
  DecisionAuthority* authority = nullptr;  // may be null: only Decide decides then
  PeerFactory connect;
  const Clock* clock = nullptr;
  Logger log;
  std::function<void(const TransferResult&)> report;   // may be empty; must not block for long
  absl::Duration resolve_every = absl::Milliseconds(200);  // grows ...
  absl::Duration resolve_last = absl::Seconds(2);          // ... up to this
  absl::Duration no_progress = absl::Seconds(5);           // see SendTerms
  int64_t max_batch_bytes = 16 << 20;
  std::atomic<int64_t>* commit_us = nullptr;           // PREPARED to the decision, learnt over moves
};

// Threading: thread-safe. A thread of its own runs the attempt to its end whether or not anybody reads its events. The request is
// marked as moving from Create to the end of the attempt.
class OutgoingMove {
 public:
  // Checks and marks the request: NOT_FOUND, FAILED_PRECONDITION (ALREADY_MIGRATING, REQUEST_FINISHED), ABORTED (EPOCH_CONFLICT).
  static absl::StatusOr<std::shared_ptr<OutgoingMove>> Create(const OutgoingContext& context, const StartMoveParams& params);
  // Stops the thread where it stands; nothing is decided.
  ~OutgoingMove();

  // The event of this number (from 0): DEADLINE_EXCEEDED when it did not come in time, OUT_OF_RANGE when no more will.
  absl::StatusOr<MoveEvent> Event(std::size_t number, absl::Duration timeout);
  // What the owner record says; doubled and late ones change nothing. An abort before FINAL ends the attempt.
  void Decide(const DecisionInfo& decision);

  const Fence& fence() const { return params_.fence; }
  AttemptInfo Info() const;
  bool done() const { return done_; }

 private:
  // Why the attempt ended before FINAL. OK with `ended`: the request ended first.
  struct Stop {
    absl::Status status;
    bool ended = false;
  };

  OutgoingMove(const OutgoingContext& context, const StartMoveParams& params);

  // --- pre-copy and final copy: move_outgoing.cc ---
  void Run();
  absl::Status Prepare();
  absl::Status ChoosePolicy(const RequestSnapshot& snapshot, SendTerms& terms);
  absl::StatusOr<RequestSnapshot> AwaitFirstToken();
  absl::Status Precopy();
  absl::Status Round(bool body_only);
  absl::Status Hold();
  absl::Status PauseAndCopy();
  absl::StatusOr<RequestSnapshot> Look();
  absl::Status CheckGoing() const;
  void GiveUp(absl::Status status);
  void Forget();
  int64_t BytesOf(int64_t cells) const;
  int64_t Left(const RequestSnapshot& snapshot) const { return snapshot.n_kv - sender_->frontier(); }

  // --- from FINAL on: move_outgoing_decision.cc ---
  void FinalAndFollow();
  void SendFinal(FinalRequest request);
  FinalRequest MakeFinal() const;
  void ReportPrepared(const FinalReply& reply);
  void AwaitFinalReply();
  void EndFinalCall();
  std::optional<DecisionInfo> AwaitDecision(MoveState settled);
  void AskResolve();
  void Follow(const DecisionInfo& decision);
  void Commit(const DecisionInfo& decision);
  void FreeOnceResumed();
  void Report();

  void Emit(MoveState state, decltype(MoveEvent::detail) detail);
  void Close(MoveState state, absl::Status error);
  MoveState state() const;

  const OutgoingContext context_;
  const StartMoveParams params_;
  const absl::Duration began_;
  Cancellation cancel_;          // of calls to the peer before FINAL, and of Final itself
  Cancellation resolve_cancel_;  // of calls to the authority

  // The thread's.
  std::unique_ptr<DestinationPeer> peer_;
  std::unique_ptr<RoundSender> sender_;
  std::unique_ptr<Pacer> pacer_;
  ShipPolicy policy_;
  RequestSnapshot paused_;
  absl::Duration rtt_;
  absl::Duration paused_at_, precopy_, prepared_at_;
  bool reported_ = false;
  std::thread final_call_;

  mutable Mutex mu_;
  CondVar changed_;
  std::vector<MoveEvent> events_ ABSL_GUARDED_BY(mu_);
  MoveState state_ ABSL_GUARDED_BY(mu_) = MoveState::kPrecopy;
  absl::Status error_ ABSL_GUARDED_BY(mu_);
  std::optional<DecisionInfo> decision_ ABSL_GUARDED_BY(mu_);       // the newest
  std::optional<absl::StatusOr<FinalReply>> final_reply_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_OUTGOING_H_

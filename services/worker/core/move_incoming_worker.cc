// The thread of an incoming attempt: blocks into the cache, then the decision.
#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "services/worker/core/move_incoming.h"
#include "services/worker/core/move_provenance.h"

namespace riskkv::worker {
namespace {

constexpr int64_t kReplayChunk = 128;  // progress is visible, and an abort acts, at least this often

}  // namespace

IncomingMove::~IncomingMove() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    if (call_ != nullptr) call_->Cancel();
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

MoveState IncomingMove::state() const {
  MutexLock lock(mu_);
  return state_;
}

void IncomingMove::SetState(MoveState state) {
  MutexLock lock(mu_);
  state_ = state;
  changed_.NotifyAll();
}

void IncomingMove::Run() {
  while (std::optional<Work> work = NextWork()) {
    if (absl::Status status = Apply(*work); !status.ok()) Fail(status);
  }
  bool whole = false;
  {
    MutexLock lock(mu_);
    whole = Alive().ok() && final_.has_value();
  }
  if (whole) {
    RISKKV_FAILPOINT("rebuilt", fence_.migration_id);
    if (absl::Status status = InstallHere(); status.ok()) {
      RISKKV_FAILPOINT("prepared", fence_.migration_id);
      FollowDecision();
    } else {
      Fail(status);
    }
  }
  Finish();
}

bool IncomingMove::Ready(const Work& work) const {
  for (uint32_t id : {work.cells, work.probe}) {
    if (id != 0 && !segments_.at(id).sealed()) return false;
  }
  return true;
}

std::optional<IncomingMove::Work> IncomingMove::NextWork() {
  MutexLock lock(mu_);
  for (;;) {
    if (!Alive().ok()) return std::nullopt;
    if (work_.empty() && final_.has_value()) return std::nullopt;
    if (!work_.empty() && Ready(work_.front())) {
      Work work = work_.front();
      work_.pop_front();
      return work;
    }
    changed_.Wait(mu_);
  }
}

absl::Status IncomingMove::Apply(const Work& work) {
  absl::Status status = work.cells == 0 ? Replay(work) : ApplyCells(work);
  context_.staging->Give(work.staged);
  RETURN_IF_ERROR(status);
  MutexLock lock(mu_);
  applied_ = work.upto;
  return absl::OkStatus();
}

absl::Status IncomingMove::ApplyCells(const Work& work) {
  auto take = [this](uint32_t id) {
    MutexLock lock(mu_);
    SegmentBuffer& segment = segments_.at(id);
    return SealedSegment{segment.segment(), segment.Take()};
  };
  SealedSegment cells = take(work.cells);
  std::optional<SealedSegment> probe;
  if (work.probe != 0) probe = take(work.probe);
  ASSIGN_OR_RETURN(const KvBlock block, assembler_->Assemble(std::move(cells), probe));
  RETURN_IF_ERROR(context_.manager->Append(reservation_, block));
  MutexLock lock(mu_);
  reply_.rebuild_ms = assembler_->rebuild_ms();
  reply_.probe_error = assembler_->probe_ratio();
  reply_.tokens_rebuilt = assembler_->tokens_rebuilt();
  reply_.tokens_exact = assembler_->tokens_exact();
  reply_.decode_ms = assembler_->decode_ms();
  reply_.tokens_coded = assembler_->tokens_coded();
  return absl::OkStatus();
}

absl::Status IncomingMove::Replay(const Work& work) {
  std::vector<Token> history;
  int64_t at = 0;
  {
    MutexLock lock(mu_);
    history.assign(history_.begin(), history_.begin() + work.upto);
    at = applied_;
  }
  const absl::Time start = absl::Now();
  const int64_t from = at;
  while (at < work.upto) {
    const int64_t upto = std::min(work.upto, at + kReplayChunk);
    RETURN_IF_ERROR(context_.manager->Prefill(reservation_, history, upto));
    at = upto;
    MutexLock lock(mu_);
    RETURN_IF_ERROR(Alive());
    applied_ = at;
  }
  MutexLock lock(mu_);
  reply_.replay_ms += absl::ToDoubleMilliseconds(absl::Now() - start);
  reply_.tokens_exact += work.upto - from;
  return absl::OkStatus();
}

absl::Status IncomingMove::InstallHere() {
  MutexLock settle(settle_mu_);
  IncomingRequest request;
  int64_t n_kv = 0;
  {
    MutexLock lock(mu_);
    RETURN_IF_ERROR(Alive());
    request.id = fence_.request_id;
    request.params = final_->params;
    request.prompt = std::move(final_->prompt);
    start_index_ = static_cast<int64_t>(final_->log.size());
    request.log = std::move(final_->log);
    // Replayed cells are computed here, natively.
    request.provenance = terms_.mode == MoveMode::kReplay ? std::vector<Provenance>{} : final_->provenance;
    for (const Provenance& p : rebuilt_) request.provenance = AddProvenance(request.provenance, p);
    n_kv = final_->n_kv;
  }
  if (int64_t length = context_.manager->ReservedLength(reservation_); length != n_kv) {
    return MakeError(absl::StatusCode::kInternal, "MANIFEST_MISMATCH", fmt::format("{} cells in the cache, {} wanted", length, n_kv));
  }
  RETURN_IF_ERROR(context_.manager->Install(reservation_, std::move(request)));
  installed_ = true;
  MutexLock lock(mu_);
  if (absl::Status status = Alive(); !status.ok()) return status;  // Finish drops what was installed
  reply_.prepared = true;
  state_ = MoveState::kPrepared;
  changed_.NotifyAll();
  context_.log->info("{} PREPARED: {} tokens rebuilt in {:.1f} ms, {} decoded in {:.1f} ms, {} exact, probe {:.3f} of its bound",
                     LogPrefix(fence_), reply_.tokens_rebuilt, reply_.rebuild_ms, reply_.tokens_coded, reply_.decode_ms,
                     reply_.tokens_exact, reply_.probe_error);
  return absl::OkStatus();
}

// No timer ends this: only the decision does (protocol.md 2.9).
void IncomingMove::FollowDecision() {
  absl::Duration retry = context_.first_retry;
  for (;;) {
    const MoveState before = state();
    if (before != MoveState::kPrepared && before != MoveState::kCommitted) return;
    if (auto decision = AskAuthority(before); decision.ok()) {
      Settle(*decision);
    } else {
      context_.log->warn("{} {} and no decision yet: {}", LogPrefix(fence_), MoveStateName(before), decision.status());
    }
    MutexLock lock(mu_);
    if (stop_) return;
    if (state_ != before) {
      retry = context_.first_retry;
      continue;
    }
    changed_.WaitFor(mu_, absl::ToChronoNanoseconds(retry));
    retry = std::min(retry * 2, context_.last_retry);
  }
}

absl::StatusOr<DecisionInfo> IncomingMove::AskAuthority(MoveState state) {
  if (context_.authority == nullptr) return absl::UnavailableError("no coordinator is known");
  auto call = std::make_shared<Cancellation>();
  PreparedStats stats;
  int64_t start_index = 0;
  uint64_t epoch = 0;
  bool activated = false;
  {
    MutexLock lock(mu_);
    if (stop_) return absl::CancelledError("shutting down");
    call_ = call;
    stats = {reply_.rebuild_ms, reply_.probe_error};
    start_index = start_index_;
    epoch = new_epoch_;
    activated = activated_;
  }
  absl::StatusOr<DecisionInfo> decision =
      state == MoveState::kPrepared ? context_.authority->Prepared(fence_, start_index, stats, call.get())
      : activated                   ? context_.authority->Resumed(fence_, epoch, call.get())
                                    : context_.authority->Resolve(fence_, false, true, call.get());
  MutexLock lock(mu_);
  call_ = nullptr;
  return decision;
}

void IncomingMove::Settle(const DecisionInfo& d) {
  if (d.decision == Decision::kOpen) return;
  MutexLock settle(settle_mu_);
  const MoveState before = state();
  if (d.decision == Decision::kAborted || d.decision == Decision::kRolledBack) {
    GiveUp(d);
  } else {
    if (before == MoveState::kPrepared) Commit(d);
    if (d.decision == Decision::kResumed && state() == MoveState::kCommitted) {
      if (absl::Status status = context_.manager->AllowDelivery(fence_.request_id); !status.ok()) {
        context_.log->error("{} resumed, but cannot deliver: {}", LogPrefix(fence_), status);
      }
      SetState(MoveState::kResumed);
    }
  }
  if (state() == before) return;
  context_.log->info("{} {} epoch {}", LogPrefix(fence_), DecisionName(d.decision), d.epoch);
  MutexLock lock(mu_);
  // The answer came another way than the call that is waiting for it.
  if (call_ != nullptr) call_->Cancel();
}

void IncomingMove::Commit(const DecisionInfo& d) {
  absl::Status status = context_.manager->Activate(fence_.request_id, d.epoch, d.start_index);
  if (!status.ok()) context_.log->error("{} committed, but cannot decode: {}", LogPrefix(fence_), status);
  if (RISKKV_MUTANT("destination delivers before RESUMED")) context_.manager->AllowDelivery(fence_.request_id).IgnoreError();
  MutexLock lock(mu_);
  new_epoch_ = d.epoch;
  activated_ = status.ok();  // otherwise it never says RESUMED, and the coordinator rolls back
  state_ = MoveState::kCommitted;
  changed_.NotifyAll();
}

void IncomingMove::GiveUp(const DecisionInfo& d) {
  const MoveState before = state();
  if (before > MoveState::kCommitted) return;
  if (before == MoveState::kCommitted && d.decision == Decision::kAborted) {
    context_.log->error("{} ABORTED after COMMITTED: ignored", LogPrefix(fence_));
    return;
  }
  if (before < MoveState::kPrepared) {
    return Fail(d.reason.ok() ? MakeError(absl::StatusCode::kAborted, "CANCELLED_BY_PEER", "the attempt was closed") : d.reason);
  }
  const MoveTarget owner{d.owner_id, d.owner_address, fence_.migration_id, d.epoch, d.start_index};
  context_.manager->Drop(fence_.request_id, d.owner_address.empty() ? nullptr : &owner);
  SetState(MoveState::kAborted);
}

// The one place where an attempt's holdings are freed.
void IncomingMove::Finish() {
  bool failed = false;
  {
    MutexLock lock(mu_);
    for (const Work& work : work_) context_.staging->Give(work.staged);
    work_.clear();
    segments_.clear();
    history_.clear();
    failed = !error_.ok();
  }
  if (!installed_) {
    context_.manager->Release(reservation_);
  } else if (failed) {
    context_.manager->Drop(fence_.request_id);
  }
  assembler_.reset();
  done_ = true;
}

}  // namespace riskkv::worker

// From opening the attempt to its decision. What follows a commit is in attempt_resume.cc.
#include "services/coordinator/core/attempt_runner.h"

#include <algorithm>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::coordinator {
namespace {

constexpr int64_t kGrowth = 256;  // tokens a request may produce during pre-copy, for the reservation

bool IsTransport(const absl::Status& status) {
  std::string reason = ReasonOf(status);
  return reason.empty() || reason == "PEER_UNREACHABLE" || reason == "NO_PROGRESS";
}

}  // namespace

absl::Status StopReason(const Job& job) {
  if (job.cancel_requested()) {
    return MakeError(absl::StatusCode::kCancelled, "CANCELLED_BY_CALLER", fmt::format("migration {} was cancelled", job.id()));
  }
  if (job.TimeLeft() <= absl::ZeroDuration()) {
    return MakeError(absl::StatusCode::kDeadlineExceeded, "DEADLINE_TOTAL",
                     fmt::format("migration {} is past its deadline", job.id()));
  }
  return absl::OkStatus();
}

AttemptRunner::AttemptRunner(const CoreContext& core, Job* job, AttemptRecord attempt, RequestInfo request, Fingerprint fingerprint)
    : core_(core),
      job_(job),
      attempt_(std::move(attempt)),
      request_(std::move(request)),
      fingerprint_(std::move(fingerprint)),
      fence_(FenceOf(job->Snapshot(), attempt_)) {}

AttemptResult AttemptRunner::Run() {
  if (absl::Status stop = StopReason(*job_); !stop.ok()) return Result(AttemptResult::Kind::kClosed, stop);
  if (absl::Status opened = core_.decisions->Open(*job_, attempt_); !opened.ok()) {
    // After UNAVAILABLE it may be open after all: only closing it makes sure. Everything else changed nothing.
    return absl::IsUnavailable(opened) ? CloseFor(opened) : Result(AttemptResult::Kind::kClosed, opened);
  }
  if (absl::Status reserved = Reserve(); !reserved.ok()) return CloseFor(WithContext(reserved, "destination", "RESERVED"));
  Emit(MigrationState::kReserved);
  RISKKV_FAILPOINT("reserved", job_->id());
  Start();
  return AwaitDecision();
}

absl::Status AttemptRunner::Reserve() {
  ReserveArgs args;
  args.fence = fence_;
  args.fingerprint = fingerprint_;
  args.mode = attempt_.mode;
  args.predictor_set = attempt_.predictor_set;
  args.profile = attempt_.profile;
  args.n_kv = request_.n_kv;
  args.growth = std::min<int64_t>(kGrowth, request_.tokens_left());
  args.headroom = std::max<int64_t>(0, request_.tokens_left() - args.growth);
  args.parameters = request_.parameters;
  args.lease = core_.registry->lease();
  return core_.api->Reserve(attempt_.destination, args, std::min(core_.options.call_timeout, job_->TimeLeft()));
}

void AttemptRunner::Start() {
  StartMoveArgs args;
  args.fence = fence_;
  args.mode = attempt_.mode;
  args.predictor_set = attempt_.predictor_set;
  args.profile = attempt_.profile;
  args.destination = attempt_.destination;
  args.max_pause =
      job_->spec().max_pause_ms > 0 ? absl::Milliseconds(job_->spec().max_pause_ms) : core_.options.default_pause;
  args.deadline = std::max(job_->TimeLeft(), absl::Milliseconds(1));
  started_at_ = core_.clock->Monotonic();
  pump_ = std::make_unique<MovePump>(core_.api->StartMove(attempt_.source, args), job_);
}

bool AttemptRunner::Emit(MigrationState state, EventDetail detail) {
  return job_->Emit(attempt_.attempt, state, attempt_.epoch, std::move(detail));
}

Decision AttemptRunner::Current() const {
  auto attempt = job_->Attempt(attempt_.attempt);
  return attempt ? attempt->decision : Decision::kOpen;
}

void AttemptRunner::Handle(MoveEvent event) {
  if (auto* failed = std::get_if<absl::Status>(&event.detail)) {
    failure_ = WithContext(*failed, "source", Name(event.state));
    return;
  }
  if (std::holds_alternative<RequestEnded>(event.detail)) {
    ended_ = true;
    return;
  }
  if (Told(event)) return;
  if (auto* stats = std::get_if<MoveStats>(&event.detail)) stats_ = *stats;
  // Only the owner record says COMMITTED and what follows.
  if (event.state > MigrationState::kPrepared || event.state < MigrationState::kReserved) return;
  if (event.state == MigrationState::kPaused && !paused_at_) paused_at_ = core_.clock->Monotonic();
  EventDetail detail;
  if (auto* round = std::get_if<RoundDone>(&event.detail)) detail = *round;
  if (auto* paused = std::get_if<PausedAt>(&event.detail)) detail = *paused;
  if (stats_ && event.state == MigrationState::kPrepared) detail = *stats_;
  // A state said twice is news only with a detail.
  const bool bare = std::holds_alternative<std::monostate>(detail);
  if (bare && event.state == job_->state()) return;
  if (Emit(event.state, detail) || bare || std::holds_alternative<MoveStats>(detail)) return;
  // The destination's word overtook the source's: the state stands, the detail is still told. (Its numbers are in the outcome.)
  auto attempt = job_->Attempt(attempt_.attempt);
  uint64_t epoch = attempt && attempt->new_epoch > 0 ? attempt->new_epoch : attempt_.epoch;
  job_->Emit(attempt_.attempt, job_->state(), epoch, std::move(detail));
}

void AttemptRunner::HandleStreamEnd(const absl::Status& status) {
  if (!failure_.ok() || ended_ || stats_) return;
  if (!status.ok() && !IsTransport(status)) {
    failure_ = WithContext(status, "source", "");
    return;
  }
  // A broken stream is not an abort: ask what became of it, until the lease or the deadline ends the wait.
  absl::Duration now = core_.clock->Monotonic();
  if (now < next_query_) return;
  next_query_ = now + core_.options.query_every;
  auto info = core_.api->QueryAttempt(attempt_.source, fence_, core_.options.call_timeout);
  if (!info.ok()) return;
  if (!info->known) {
    failure_ = status.ok() ? MakeError(absl::StatusCode::kAborted, "UNKNOWN_ATTEMPT", "the source does not hold the attempt") : status;
  } else if (!info->error.ok()) {
    failure_ = info->error;
  }
}

void AttemptRunner::Drain() {
  if (!pump_) return;
  while (auto event = pump_->Pop()) Handle(*std::move(event));
  if (auto status = pump_->Ended()) HandleStreamEnd(*status);
}

absl::Status AttemptRunner::Gone(const WorkerName& worker, std::string_view side) const {
  if (core_.registry->PresenceOf(worker) != Presence::kGone) return absl::OkStatus();
  auto current = core_.registry->Find(worker.id);
  bool rebooted = current.ok() && current->info.name.boot_id != worker.boot_id;
  return WithContext(
      MakeError(rebooted ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kUnavailable,
                rebooted ? "BOOT_ID_CHANGED" : "PEER_UNREACHABLE",
                rebooted ? fmt::format("worker {} restarted: boot {} became {}", worker.id, worker.boot_id,
                                       current->info.name.boot_id)
                         : fmt::format("worker {} at {} has not renewed its lease", worker.id, worker.address)),
      side, "");
}

absl::Status AttemptRunner::Trouble() {
  if (!failure_.ok()) return failure_;
  if (ended_) return MakeError(absl::StatusCode::kFailedPrecondition, "REQUEST_FINISHED", "the request ended before the final copy");
  RETURN_IF_ERROR(StopReason(*job_));
  RETURN_IF_ERROR(Gone(attempt_.destination, "destination"));
  return Gone(attempt_.source, "source");
}

AttemptResult AttemptRunner::AwaitDecision() {
  for (;;) {
    if (core_.Stopping()) return Result(AttemptResult::Kind::kStopped);
    Drain();
    switch (Current()) {
      case Decision::kOpen:
        break;
      case Decision::kAborted:
        return Closed(job_->Attempt(attempt_.attempt)->error);
      default:
        return AwaitResume();
    }
    if (RISKKV_MUTANT("lease expiry changes the owner") && !Gone(attempt_.source, "source").ok()) GiveToDestination();
    if (absl::Status trouble = Trouble(); !trouble.ok()) return CloseFor(trouble);
    job_->WaitChange(core_.options.tick);
  }
}

// What a mutant does; protocol.md, 3: a lease by itself never changes an owner.
void AttemptRunner::GiveToDestination() {
  auto give = [this](OwnerRecord record) -> absl::StatusOr<OwnerRecord> {
    record.owner = attempt_.destination;
    ++record.epoch;
    record.open.reset();
    return record;
  };
  job_->Transact(*core_.store, OwnerRecord(), give, {}).IgnoreError();
}

// Until the store has answered nobody knows: the job stays open, in doubt once its deadline has passed.
AttemptResult AttemptRunner::CloseFor(absl::Status why) {
  if (RISKKV_MUTANT("abort sent before it is durable")) core_.notifier->Tell(attempt_.source, Args(Decision::kAborted, why)).IgnoreError();
  for (;;) {
    auto reply = core_.decisions->Close(*job_, fence_, why);
    if (reply.ok()) {
      job_->SetInDoubt(false);
      if (reply->superseded) return Result(AttemptResult::Kind::kLost, why);
      return reply->decision == Decision::kAborted ? Closed(reply->reason) : AwaitResume();
    }
    core_.log->error("mig={}/{} req={} cannot close the attempt: {}", fence_.migration_id, fence_.attempt, fence_.request_id,
                     reply.status());
    if (job_->TimeLeft() <= absl::ZeroDuration()) job_->SetInDoubt(true);
    if (core_.Stopping()) return Result(AttemptResult::Kind::kStopped);
    job_->WaitChange(core_.options.store_retry);
  }
}

AttemptResult AttemptRunner::Closed(const absl::Status& why) {
  core_.log->info("mig={}/{} req={} closed: {}", fence_.migration_id, fence_.attempt, fence_.request_id, why);
  DecideArgs args = Args(Decision::kAborted, why);
  core_.notifier->Queue(attempt_.destination, args);
  // The next attempt needs the source to know; it mostly does, having failed itself.
  if (StopReason(*job_).ok() && core_.registry->PresenceOf(attempt_.source) != Presence::kGone) {
    core_.notifier->TellOrQueue(attempt_.source, args);
  } else {
    core_.notifier->Queue(attempt_.source, args);
  }
  return Result(ended_ ? AttemptResult::Kind::kEnded : AttemptResult::Kind::kClosed, why);
}

AttemptResult AttemptRunner::Result(AttemptResult::Kind kind, absl::Status why) const {
  AttemptResult result;
  result.kind = kind;
  result.why = std::move(why);
  result.stats = stats_;
  if (paused_at_ && resumed_at_) result.pause_ms = absl::ToDoubleMilliseconds(*resumed_at_ - *paused_at_);
  if (started_at_ && committed_at_) result.real_seconds = absl::ToDoubleSeconds(*committed_at_ - *started_at_);
  return result;
}

DecideArgs AttemptRunner::Args(Decision decision, const absl::Status& reason) const {
  DecideArgs args;
  args.fence = fence_;
  args.decision = decision;
  args.reason = reason;
  args.owner = attempt_.source;
  args.new_epoch = attempt_.epoch;
  auto now = job_->Attempt(attempt_.attempt);
  if (decision == Decision::kAborted || !now) return args;
  args.new_epoch = now->new_epoch;
  args.start_index = now->start_index;
  if (decision == Decision::kCommitted || decision == Decision::kResumed) {
    args.owner = attempt_.destination;
    args.new_epoch = attempt_.epoch + 1;
  }
  return args;
}

}  // namespace riskkv::coordinator

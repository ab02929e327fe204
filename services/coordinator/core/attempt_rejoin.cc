// After a restart of the coordinator, before the decision.
#include "common/base/status.h"
#include "fmt/format.h"
#include "services/coordinator/core/attempt_runner.h"

namespace riskkv::coordinator {
namespace {

constexpr absl::Duration kAskEvery = absl::Milliseconds(500);

}  // namespace

AttemptResult AttemptRunner::Rejoin() {
  rejoined_ = true;
  bool asked = false;
  while (Current() == Decision::kOpen) {
    if (core_.Stopping()) return Result(AttemptResult::Kind::kStopped);
    // A source that never answers: its lease or the deadline closes the attempt.
    if (absl::Status trouble = Trouble(); !trouble.ok()) return CloseFor(trouble);
    const absl::Duration now = core_.clock->Monotonic();
    if (!asked || now >= next_query_) {
      asked = true;
      next_query_ = now + kAskEvery;
      auto info = core_.api->QueryAttempt(attempt_.source, fence_, core_.options.call_timeout);
      if (info.ok() && !info->known) {
        return CloseFor(MakeError(absl::StatusCode::kUnavailable, "NOT_LEADER",
                                  fmt::format("the coordinator changed before source {} had begun attempt {}", attempt_.source.id,
                                              attempt_.attempt)));
      }
      if (info.ok() && !info->error.ok()) return CloseFor(WithContext(info->error, "source", Name(info->state)));
      if (info.ok() && info->state > MigrationState::kPrepared) {
        if (auto lost = CommitAgain(info->state)) return *std::move(lost);
      } else if (info.ok()) {
        core_.log->info("mig={}/{} req={} rejoined in {}", fence_.migration_id, fence_.attempt, fence_.request_id, Name(info->state));
        job_->set_source_unasked(0);  // from here on it may commit
        Start();                      // the same fence: the running move is followed, from its first event
        break;
      }
    }
    job_->WaitChange(core_.options.tick);
  }
  return AwaitDecision();
}

// The source has heard COMMITTED of an attempt that the store calls open: a backup was put back that is older than the commit. What was
// decided is written again, once the destination says from which index on; nothing while it cannot be asked.
std::optional<AttemptResult> AttemptRunner::CommitAgain(MigrationState at_source) {
  core_.log->critical("mig={}/{} req={} is {} at source {}, the store {} only says open: the store went back in time; the worker wins",
                      fence_.migration_id, fence_.attempt, fence_.request_id, Name(at_source), attempt_.source.id, core_.store->name());
  auto owner = core_.api->GetRequest(attempt_.destination, fence_.request_id);
  if (!owner.ok() && !absl::IsNotFound(owner.status())) return std::nullopt;
  if (!owner.ok() || owner->moved || owner->epoch != fence_.epoch + 1) {
    // It went on from there. Closed, the record waits for whoever holds the request at a higher epoch (Admission::Check).
    AttemptResult closed = CloseFor(MakeError(absl::StatusCode::kAborted, "EPOCH_CONFLICT",
                                              fmt::format("the store went back in time: request {} has left {} again", fence_.request_id,
                                                          attempt_.destination.id)));
    if (closed.kind == AttemptResult::Kind::kClosed) closed.kind = AttemptResult::Kind::kLost;
    return closed;
  }
  job_->set_source_unasked(0);
  auto again = core_.decisions->Prepared(job_, fence_, owner->start_index);
  if (again.ok() && again->decision == Decision::kCommitted) ResumeAgain(at_source);
  if (!again.ok()) core_.log->error("mig={}/{} req={} cannot be committed again: {}", fence_.migration_id, fence_.attempt,
                                    fence_.request_id, again.status());
  return std::nullopt;
}

// A worker says RESUMED of a commit that the store does not call resumed: the same, one step later. No roll-back may follow.
void AttemptRunner::ResumeAgain(MigrationState at_worker) {
  if (at_worker != MigrationState::kResumed) return;
  auto resumed = core_.decisions->Resumed(job_, fence_, fence_.epoch + 1);
  if (resumed.ok()) return;
  core_.log->error("mig={}/{} req={} cannot be resumed again: {}", fence_.migration_id, fence_.attempt, fence_.request_id,
                   resumed.status());
}

void AttemptRunner::AskWhetherResumed() {
  for (const WorkerName* worker : {&attempt_.destination, &attempt_.source}) {
    if (Current() != Decision::kCommitted || core_.Stopping()) return;
    auto info = core_.api->QueryAttempt(*worker, fence_, core_.options.call_timeout);
    if (info.ok() && info->known && info->error.ok()) ResumeAgain(info->state);
  }
}

AttemptResult AttemptRunner::TellClosed() {
  ended_ = ReasonOf(attempt_.error) == "REQUEST_FINISHED";
  return Closed(attempt_.error);
}

// A source that is joined again says everything from the start.
bool AttemptRunner::Told(const MoveEvent& event) const {
  if (!rejoined_) return false;
  const auto* round = std::get_if<RoundDone>(&event.detail);
  const bool paused = std::holds_alternative<PausedAt>(event.detail);
  if (round == nullptr && !paused) return false;
  for (const JobEvent& known : job_->Snapshot().events) {
    if (known.attempt != attempt_.attempt) continue;
    const auto* known_round = std::get_if<RoundDone>(&known.detail);
    if (round != nullptr && known_round != nullptr && known_round->round >= round->round) return true;
    if (paused && std::holds_alternative<PausedAt>(known.detail)) return true;
  }
  return false;
}

}  // namespace riskkv::coordinator

// After the commit: RESUMED, or the roll-back that excludes it (protocol.md, 2.10).
#include <algorithm>

#include "common/base/status.h"
#include "fmt/format.h"
#include "services/coordinator/core/attempt_runner.h"

namespace riskkv::coordinator {
AttemptResult AttemptRunner::Continue() {
  committed_at_ = core_.clock->Monotonic();
  AskWhetherResumed();
  return AwaitResume();
}

AttemptResult AttemptRunner::AwaitResume() {
  if (!committed_at_) {
    committed_at_ = core_.clock->Monotonic();
    core_.log->info("mig={}/{} req={} committed: {} owns it", fence_.migration_id, fence_.attempt, fence_.request_id,
                    attempt_.destination.id);
  }
  // Also when RESUMED or the roll-back has come already: the source's clients learn from it where the request went.
  core_.notifier->TellOrQueue(attempt_.source, Args(Decision::kCommitted));
  next_nudge_ = core_.clock->Monotonic() + core_.options.nudge_every;
  for (;;) {
    if (core_.Stopping()) return Result(AttemptResult::Kind::kStopped);
    Drain();
    Decision decision = Current();
    if (decision == Decision::kResumed) return Finished();
    if (decision == Decision::kRolledBack) return *TryRollBack(absl::OkStatus());
    if (absl::Status trouble = ResumeTrouble(); !trouble.ok()) {
      if (auto result = TryRollBack(trouble)) return *result;
    }
    job_->WaitChange(core_.options.tick);
  }
}

// Why the destination will not resume. Rolling back is safe whenever it is tried, RESUMED excludes it; so a destination that is
// there but does not get on is given up too, one lease after the deadline.
absl::Status AttemptRunner::ResumeTrouble() {
  RETURN_IF_ERROR(Gone(attempt_.destination, "destination"));
  absl::Duration now = core_.clock->Monotonic();
  if (now < next_nudge_) return absl::OkStatus();
  next_nudge_ = now + core_.options.nudge_every;
  // Its answer to Prepared may have been lost; and a destination that holds nothing will never resume.
  auto known = core_.notifier->Tell(attempt_.destination, Args(Decision::kCommitted));
  if (known.ok() && !*known && Current() == Decision::kCommitted) {
    return MakeError(absl::StatusCode::kAborted, "UNKNOWN_ATTEMPT",
                     fmt::format("destination {} holds nothing of the attempt", attempt_.destination.id));
  }
  absl::Duration patience = std::max(job_->TimeLeft(), core_.registry->lease() - (now - *committed_at_));
  if (patience > absl::ZeroDuration()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kDeadlineExceeded, "NO_PROGRESS",
                   fmt::format("destination {} did not resume the request", attempt_.destination.id));
}

std::optional<AttemptResult> AttemptRunner::TryRollBack(const absl::Status& why) {
  // Giving it back to a boot that is no more helps nobody: whoever holds the tokens recovers it. A source that is only out of reach
  // may come back, and then knows whether to go on.
  if (Current() == Decision::kCommitted && ReasonOf(Gone(attempt_.source, "source")) == "BOOT_ID_CHANGED") {
    return Result(AttemptResult::Kind::kLost, why);
  }
  auto reply = core_.decisions->RollBack(*job_, fence_, why);
  if (!reply.ok()) {
    core_.log->error("mig={}/{} req={} cannot roll back: {}", fence_.migration_id, fence_.attempt, fence_.request_id,
                     reply.status());
    if (job_->TimeLeft() <= absl::ZeroDuration()) job_->SetInDoubt(true);
    return std::nullopt;
  }
  job_->SetInDoubt(false);
  if (reply->decision == Decision::kResumed) return Finished();
  if (reply->superseded) return Result(AttemptResult::Kind::kLost, why);
  if (reply->decision != Decision::kRolledBack) return std::nullopt;
  core_.log->warn("mig={}/{} req={} rolled back to {}: {}", fence_.migration_id, fence_.attempt, fence_.request_id,
                  attempt_.source.id, reply->reason);
  DecideArgs args = Args(Decision::kRolledBack, reply->reason);
  core_.notifier->TellOrQueue(attempt_.source, args);
  core_.notifier->Queue(attempt_.destination, args);
  return Result(AttemptResult::Kind::kRolledBack, reply->reason);
}

// From the request for the decision to RESUMED, in milliseconds, by the events' own times.
double AttemptRunner::PreparedToResumedMs() const {
  double prepared = 0, resumed = 0;
  for (const JobEvent& event : job_->Snapshot().events) {
    if (event.attempt != attempt_.attempt) continue;
    if (event.state == MigrationState::kPrepared) prepared = event.elapsed_ms;
    if (event.state == MigrationState::kResumed) resumed = event.elapsed_ms;
  }
  return prepared > 0 && resumed > prepared ? resumed - prepared : 0;
}

AttemptResult AttemptRunner::Finished() {
  resumed_at_ = core_.clock->Monotonic();
  core_.notifier->TellOrQueue(attempt_.source, Args(Decision::kResumed));
  AwaitStats();
  // Durations of one clock each: the source's from its pause to PREPARED, ours from there on.
  AttemptResult result = Result(AttemptResult::Kind::kResumed);
  result.commit_ms = job_->commit_ms();
  if (stats_) result.pause_ms = stats_->final_ms + PreparedToResumedMs();
  return result;
}

// The source's own numbers come on its stream, maybe after the decision. Counted in ticks: a courtesy, no deadline.
void AttemptRunner::AwaitStats() {
  const int64_t ticks = core_.options.stats_wait / std::max(core_.options.tick, absl::Milliseconds(1));
  for (int64_t i = 0; pump_ && i < ticks && !core_.Stopping(); ++i) {
    Drain();
    if (stats_ || pump_->Ended()) return;
    job_->WaitChange(core_.options.tick);
  }
}

}  // namespace riskkv::coordinator

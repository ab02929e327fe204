// Jobs that were not terminal when the coordinator before this one ended: each goes on where its records say that it is.
//
// - decided (COMMITTED, RESUMED, rolled back): the rest of the move, or its terminal record;
// - undecided with an open attempt: no coordinator's end decides anything (protocol.md, 2.9). The workers have gone on meanwhile, and
//   the source is joined where it is. Only when it does not hold the attempt is the attempt closed and the job begun again;
// - no open attempt: the job goes on as after a fallback, or from its plan.
//
// In all cases within the time that the job had left, and after its workers have registered.
#include "common/base/status.h"
#include "services/coordinator/core/job_runner.h"

namespace riskkv::coordinator {

void JobRunner::Recover() {
  JobRecord record = job_->Snapshot();
  const AttemptRecord* last = record.last_attempt();
  attempt_ = record.events.empty() ? 1 : record.events.back().attempt;
  epoch_ = record.spec.expected_epoch;
  if (last == nullptr) return GoOn(Mode::kUnspecified);
  attempt_ = last->attempt;
  epoch_ = last->epoch;
  mode_ = last->mode;
  predictor_set_ = last->predictor_set;
  profile_ = last->profile;
  DecideArgs args;
  args.fence = FenceOf(record, *last);
  args.new_epoch = last->new_epoch;
  args.start_index = last->start_index;
  args.decision = last->decision;
  switch (last->decision) {
    case Decision::kCommitted:
      result_ = AttemptRunner(core_, job_, *last, {}, {}).Continue();
      Settle(*result_, mode_);
      return;
    case Decision::kResumed:
      args.owner = last->destination;
      core_.notifier->Queue(last->source, args);
      return Finish(MigrationState::kSucceeded, absl::OkStatus());
    case Decision::kRolledBack:
      args.owner = last->source;
      args.reason = last->error;
      core_.notifier->Queue(last->source, args);
      core_.notifier->Queue(last->destination, args);
      return Finish(MigrationState::kFailed, last->error);
    default:
      break;
  }
  result_ = last->decision == Decision::kAborted ? AttemptRunner(core_, job_, *last, {}, {}).TellClosed()
                                                 : AttemptRunner(core_, job_, *last, {}, {}).Rejoin();
  if (Settle(*result_, mode_)) return;
  if (ReasonOf(result_->why) == "NOT_LEADER") {
    ++attempt_;  // it had not begun: the same way again
  } else if (!FallBack(result_->why)) {
    return;
  }
  GoOn(mode_);
}

void JobRunner::GoOn(Mode mode) {
  result_.reset();
  absl::StatusOr<Admitted> facts = AwaitWorkers();
  if (absl::Status stop = StopReason(*job_); !stop.ok()) return Finish(MigrationState::kAborted, stop);
  if (core_.Stopping()) return;
  if (!facts.ok()) return Refused(facts.status());
  Proceed(*facts, mode);
}

// A worker that has not registered since this coordinator started is not gone until a lease has passed.
absl::StatusOr<Admitted> JobRunner::AwaitWorkers() const {
  const JobRecord record = job_->Snapshot();
  for (;;) {
    // Asked before the check: a worker that registers in between does not end the wait with the answer from before.
    const bool unheard = core_.registry->PresenceOf(record.source) == Presence::kUnknown ||
                         core_.registry->PresenceOf(record.destination) == Presence::kUnknown;
    absl::StatusOr<Admitted> facts = admission_->Check(job_->spec());
    if (facts.ok() || core_.Stopping() || !StopReason(*job_).ok()) return facts;
    if (!unheard && !absl::IsUnavailable(facts.status())) return facts;
    if (!unheard && ReasonOf(facts.status()) != "STORE_UNAVAILABLE") return facts;
    job_->WaitChange(core_.options.store_retry);
  }
}

}  // namespace riskkv::coordinator

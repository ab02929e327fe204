// Jobs that were not terminal when the coordinator ended: cleaned up, or carried on, from what the records say.
#include "common/base/status.h"
#include "services/coordinator/core/job_runner.h"

namespace riskkv::coordinator {
namespace {

absl::Status Restarted() {
  absl::Status status = MakeError(absl::StatusCode::kUnavailable, "NOT_LEADER", "the coordinator restarted before the decision");
  return WithContext(status, "coordinator", "");
}

}  // namespace

void JobRunner::Recover() {
  JobRecord record = job_->Snapshot();
  const AttemptRecord* last = record.last_attempt();
  if (last == nullptr) return Finish(MigrationState::kAborted, Restarted());
  attempt_ = last->attempt;
  epoch_ = last->epoch;
  mode_ = last->mode;
  predictor_set_ = last->predictor_set;
  profile_ = last->profile;
  Fence fence = FenceOf(record, *last);
  DecideArgs args;
  args.fence = fence;
  args.new_epoch = last->new_epoch;
  args.start_index = last->start_index;
  args.owner = last->decision == Decision::kRolledBack || last->decision == Decision::kOpen ? last->source : last->destination;
  switch (last->decision) {
    case Decision::kCommitted:
      result_ = AttemptRunner(core_, job_, *last, {}, {}).Continue();
      Settle(*result_, mode_);
      return;
    case Decision::kResumed:
      args.decision = Decision::kResumed;
      core_.notifier->Queue(last->source, args);
      return Finish(MigrationState::kSucceeded, absl::OkStatus());
    case Decision::kRolledBack:
      args.decision = Decision::kRolledBack;
      args.reason = last->error;
      core_.notifier->Queue(last->source, args);
      core_.notifier->Queue(last->destination, args);
      return Finish(MigrationState::kFailed, last->error);
    case Decision::kAborted:
      args.reason = last->error;
      break;
    default: {
      auto closed = core_.decisions->Close(*job_, fence, Restarted());
      // The store that was just read is out of reach: the record stays for the next start.
      if (!closed.ok()) return;
      args.reason = closed->reason;
    }
  }
  args.decision = Decision::kAborted;
  args.new_epoch = last->epoch;
  core_.notifier->Queue(last->source, args);
  core_.notifier->Queue(last->destination, args);
  Finish(MigrationState::kAborted, last->decision == Decision::kAborted ? last->error : Restarted());
}

}  // namespace riskkv::coordinator

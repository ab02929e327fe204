#include "services/coordinator/core/decisions.h"

#include <utility>

#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "common/migration/transitions.h"
#include "fmt/format.h"

namespace riskkv::coordinator {
namespace {

DecisionReply Reply(Decision decision, const OwnerRecord& owner, absl::Status reason = absl::OkStatus()) {
  return {.decision = decision,
          .epoch = owner.epoch,
          .start_index = owner.start_index,
          .owner = owner.owner,
          .reason = std::move(reason)};
}

// Errors of the store, as opposed to refusals of a transition.
bool IsStoreError(const absl::Status& status) {
  std::string reason = ReasonOf(status);
  return absl::IsUnavailable(status) || absl::IsDataLoss(status) || reason == "DISK_FULL" || reason == "NOT_LEADER" ||
         reason.empty();
}

void Decide(JobRecord& job, const Fence& fence, Decision decision, const OwnerRecord& owner, const absl::Status& error) {
  AttemptRecord* attempt = job.Find(fence.attempt);
  if (attempt == nullptr) return;
  attempt->decision = decision;
  if (!error.ok()) attempt->error = error;
  if (decision == Decision::kAborted) return;
  attempt->new_epoch = owner.epoch;
  attempt->start_index = owner.start_index;
}

absl::Status Cancelled(const Job& job) {
  return MakeError(absl::StatusCode::kAborted, "CANCELLED_BY_CALLER", fmt::format("migration {} was cancelled", job.id()));
}

absl::Status NotRecorded(const Fence& fence, std::string_view why) {
  return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_ATTEMPT",
                   fmt::format("attempt {} of migration {} on request {}: {}; what was decided is not known", fence.attempt,
                               fence.migration_id, fence.request_id, why));
}

// The record is at another epoch, and its last commit is another's. At a higher one the request went on without the attempt, whether
// that committed or not: it is elsewhere for good, unless the source has it back. At a lower one the store knows less than who asks.
absl::StatusOr<DecisionReply> Hidden(const OwnerRecord& owner, const Fence& fence) {
  if (owner.epoch < fence.epoch) return NotRecorded(fence, fmt::format("the store is at epoch {} only", owner.epoch));
  if (owner.rolled_back && owner.owner.boot_id == fence.source_boot_id) return Reply(Decision::kRolledBack, owner);
  DecisionReply reply = Reply(Decision::kCommitted, owner);
  reply.superseded = true;
  return reply;
}

OwnerRecord Nobody(const Fence& fence) { return ImplicitOwner(fence.request_id, {}); }

}  // namespace

DecisionReply ForSource(DecisionReply reply) {
  if (reply.superseded) reply.decision = Decision::kResumed;
  return reply;
}

DecisionReply ForDestination(DecisionReply reply) {
  if (reply.superseded) reply.decision = Decision::kRolledBack;
  return reply;
}

absl::StatusOr<OwnerRecord> Decisions::Owner(const std::string& request_id) const {
  absl::StatusOr<OwnerRecord> record = store_->GetOwner(request_id);
  if (absl::IsNotFound(record.status())) return ImplicitOwner(request_id, {});
  return record;
}

absl::Status Decisions::Open(Job& job, const AttemptRecord& attempt) const {
  OpenAttempt open{.migration_id = job.id(),
                   .attempt = attempt.attempt,
                   .destination = attempt.destination,
                   .leader_term = attempt.leader_term};
  auto transition = [&, cancelled = job.cancel_requested()](const OwnerRecord& record) -> absl::StatusOr<OwnerRecord> {
    if (cancelled) return Cancelled(job);
    if (record.owner.boot_id != attempt.source.boot_id) {
      return MakeError(absl::StatusCode::kAborted, "NOT_OWNER",
                       fmt::format("request {} is owned by {} (boot {}), not by {} (boot {})", record.request_id, record.owner.id,
                                   record.owner.boot_id, attempt.source.id, attempt.source.boot_id));
    }
    return OpenNewAttempt(record, open, attempt.epoch);
  };
  auto mutate = [&](JobRecord& record, const OwnerRecord&) {
    record.attempts.push_back(attempt);
    record.source = attempt.source;
    record.destination = attempt.destination;
  };
  return job.Transact(*store_, ImplicitOwner(job.spec().request_id, attempt.source), transition, {.mutate = mutate}).status();
}

absl::StatusOr<DecisionReply> Decisions::Look(const Job* job, const Fence& fence) const {
  ASSIGN_OR_RETURN(OwnerRecord owner, Owner(fence.request_id));
  // The job's attempt changes in the owner record's transactions: it knows what later changes of the owner record hid.
  std::optional<AttemptRecord> attempt = job == nullptr ? std::nullopt : job->Attempt(fence.attempt);
  if (attempt && attempt->decision != Decision::kOpen && job->spec().request_id == fence.request_id) {
    DecisionReply reply = Reply(attempt->decision, owner, attempt->error);
    reply.superseded = attempt->decision == Decision::kCommitted && DecisionOf(owner, fence) == Decision::kUnspecified;
    return reply;
  }
  const Decision decision = DecisionOf(owner, fence);
  // An attempt is opened with its job, in a record that outlives both its own decision and the job. Without either nothing says that it
  // did not commit.
  const bool nothing_known = job == nullptr && owner.revision == 0;
  if (decision == Decision::kUnspecified) return Hidden(owner, fence);
  if (decision != Decision::kAborted) return Reply(decision, owner);
  if (nothing_known) return NotRecorded(fence, "no record speaks of the request");
  // Still at the epoch it opened at, and not open: it cannot commit any more.
  return Reply(decision, owner,
               MakeError(absl::StatusCode::kAborted, "UNKNOWN_ATTEMPT",
                         fmt::format("attempt {} of migration {} is not open on request {}", fence.attempt, fence.migration_id,
                                     fence.request_id)));
}

absl::StatusOr<DecisionReply> Decisions::Prepared(Job* job, const Fence& fence, int64_t start_index) const {
  if (job == nullptr) return Look(nullptr, fence);
  if (job->source_unasked() == fence.attempt) {
    ASSIGN_OR_RETURN(DecisionReply known, Look(job, fence));
    if (known.decision != Decision::kOpen) return known;
    return MakeError(absl::StatusCode::kUnavailable, "NOT_READY",
                     fmt::format("attempt {} of migration {} was found open by this coordinator, and its source has not been asked yet",
                                 fence.attempt, fence.migration_id));
  }
  auto mutate = [&](JobRecord& record, const OwnerRecord& owner) {
    Decide(record, fence, Decision::kCommitted, owner, absl::OkStatus());
    job->Append(record, fence.attempt, MigrationState::kPrepared, fence.epoch);
    job->Append(record, fence.attempt, MigrationState::kCommitted, owner.epoch);
  };
  auto transition = [&, cancelled = job->cancel_requested(), known = job->Attempt(fence.attempt)](const OwnerRecord& r) -> absl::StatusOr<OwnerRecord> {
    OwnerRecord record = r;
    if (RISKKV_MUTANT("late commit of a closed attempt accepted") && !record.open && record.epoch == fence.epoch && known) {
      record.open = OpenAttempt{fence.migration_id, fence.attempt, known->destination, fence.leader_term};
    }
    ASSIGN_OR_RETURN(OwnerRecord next, CommitAttempt(record, fence, start_index));
    if (!cancelled) return next;
    return Cancelled(*job);
  };
  absl::Duration before = clock_->Monotonic();
  auto written = job->Transact(*store_, Nobody(fence), transition, {.mutate = mutate});
  if (written.ok()) {
    RISKKV_FAILPOINT("committed", fence.migration_id);
    job->set_commit_ms(absl::ToDoubleMilliseconds(clock_->Monotonic() - before));
    return Reply(Decision::kCommitted, *written);
  }
  if (IsStoreError(written.status())) return written.status();
  ASSIGN_OR_RETURN(DecisionReply known, Look(job, fence));
  if (known.decision != Decision::kOpen) return known;
  // Open, but it may not commit as the caller says. When the request is cancelled nobody may: close it. Else another fence than the
  // attempt's own asked; it has no part in it.
  if (ReasonOf(written.status()) == "CANCELLED_BY_CALLER") return Close(*job, fence, written.status());
  return DecisionReply{.decision = Decision::kAborted, .epoch = known.epoch, .owner = known.owner, .reason = written.status()};
}

absl::StatusOr<DecisionReply> Decisions::Resumed(Job* job, const Fence& fence, uint64_t new_epoch) const {
  auto transition = [&](const OwnerRecord& r) { return ResumeOwner(r, fence, new_epoch); };
  if (job == nullptr) return Look(nullptr, fence);
  auto mutate = [&](JobRecord& record, const OwnerRecord& owner) {
    Decide(record, fence, Decision::kResumed, owner, absl::OkStatus());
    job->Append(record, fence.attempt, MigrationState::kResumed, owner.epoch);
  };
  ASSIGN_OR_RETURN(DecisionReply before, Look(job, fence));
  if (before.decision != Decision::kCommitted) return before;
  auto written = job->Transact(*store_, Nobody(fence), transition, {.mutate = mutate});
  if (written.ok()) {
    RISKKV_FAILPOINT("resumed", fence.migration_id);
    return Reply(Decision::kResumed, *written);
  }
  if (IsStoreError(written.status())) return written.status();
  ASSIGN_OR_RETURN(DecisionReply after, Look(job, fence));
  if (after.decision == Decision::kCommitted) after.reason = written.status();  // another fence asked; it may not deliver
  return after;
}

absl::StatusOr<DecisionReply> Decisions::Close(Job& job, const Fence& fence, const absl::Status& reason) const {
  auto mutate = [&](JobRecord& record, const OwnerRecord& owner) {
    Decide(record, fence, Decision::kAborted, owner, reason);
  };
  auto written = job.Transact(
      *store_, Nobody(fence), [&](const OwnerRecord& r) { return CloseAttempt(r, fence.migration_id, fence.attempt); },
      {.mutate = mutate});
  if (written.ok()) return Reply(Decision::kAborted, *written, reason);
  if (IsStoreError(written.status())) return written.status();
  return Look(&job, fence);
}

absl::StatusOr<DecisionReply> Decisions::RollBack(Job& job, const Fence& fence, const absl::Status& reason) const {
  auto mutate = [&](JobRecord& record, const OwnerRecord& owner) {
    Decide(record, fence, Decision::kRolledBack, owner, reason);
  };
  auto written = job.Transact(
      *store_, Nobody(fence), [&](const OwnerRecord& r) { return riskkv::RollBack(r, fence); }, {.mutate = mutate});
  if (written.ok()) return Reply(Decision::kRolledBack, *written, reason);
  if (IsStoreError(written.status())) return written.status();
  return Look(&job, fence);
}

}  // namespace riskkv::coordinator

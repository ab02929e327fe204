#include "common/migration/transitions.h"

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

absl::Status Refuse(absl::StatusCode code, std::string_view reason, std::string message) {
  return MakeError(code, reason, message);
}

absl::Status EpochConflict(const std::string& request, uint64_t is, uint64_t expected) {
  return Refuse(absl::StatusCode::kAborted, "EPOCH_CONFLICT",
                fmt::format("request {} is at epoch {}, expected {}", request, is, expected));
}

bool IsOpen(const OwnerRecord& record, const std::string& migration_id, uint32_t attempt) {
  return record.open && record.open->migration_id == migration_id && record.open->attempt == attempt;
}

bool IsLastCommit(const OwnerRecord& record, const std::string& migration_id, uint32_t attempt) {
  return !migration_id.empty() && record.last_committed == migration_id && record.last_attempt == attempt;
}

std::string AttemptName(const std::string& migration_id, uint32_t attempt) {
  return fmt::format("attempt {} of migration {}", attempt, migration_id);
}

absl::Status StaleFence(const Fence& fence, std::string_view what, std::string_view is, std::string_view said) {
  return Refuse(absl::StatusCode::kAborted, "STALE_FENCE",
                fmt::format("{}: {} is {}, the fence says {}", AttemptName(fence.migration_id, fence.attempt), what, is, said));
}

absl::Status CheckFence(const OwnerRecord& record, const Fence& fence) {
  const OpenAttempt& open = *record.open;
  if (record.epoch != fence.epoch) return EpochConflict(record.request_id, record.epoch, fence.epoch);
  if (record.owner.boot_id != fence.source_boot_id) {
    return StaleFence(fence, "the owner's boot", record.owner.boot_id, fence.source_boot_id);
  }
  if (open.destination.boot_id != fence.destination_boot_id) {
    return StaleFence(fence, "the destination's boot", open.destination.boot_id, fence.destination_boot_id);
  }
  if (open.leader_term != fence.leader_term) {
    return StaleFence(fence, "the leader term", fmt::format("{}", open.leader_term), fmt::format("{}", fence.leader_term));
  }
  return absl::OkStatus();
}

}  // namespace

OwnerRecord ImplicitOwner(const std::string& request_id, const WorkerName& owner) {
  OwnerRecord record;
  record.request_id = request_id;
  record.owner = owner;
  return record;
}

absl::StatusOr<std::string> BootOfRequest(const std::string& request_id) {
  auto dash = request_id.rfind('-');
  if (dash == std::string::npos || dash == 0 || dash + 1 == request_id.size()) {
    return Refuse(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
                  fmt::format("request id '{}' is not <boot id>-<hex>", request_id));
  }
  return request_id.substr(0, dash);
}

absl::StatusOr<OwnerRecord> OpenNewAttempt(const OwnerRecord& record, const OpenAttempt& attempt, uint64_t expected_epoch) {
  if (record.epoch != expected_epoch) return EpochConflict(record.request_id, record.epoch, expected_epoch);
  if (record.open) {
    return Refuse(absl::StatusCode::kFailedPrecondition, "ALREADY_MIGRATING",
                  fmt::format("request {} is being moved by {}", record.request_id,
                              AttemptName(record.open->migration_id, record.open->attempt)));
  }
  if (!record.resumed) {
    return Refuse(absl::StatusCode::kFailedPrecondition, "ALREADY_MIGRATING",
                  fmt::format("request {} was given to {} by migration {} and has not resumed there yet", record.request_id,
                              record.owner.id, record.last_committed));
  }
  if (record.cancelled) {
    return Refuse(absl::StatusCode::kFailedPrecondition, "CANCELLED_BY_CALLER",
                  fmt::format("request {} was cancelled by its client", record.request_id));
  }
  OwnerRecord next = record;
  next.open = attempt;
  return next;
}

absl::StatusOr<OwnerRecord> CommitAttempt(const OwnerRecord& record, const Fence& fence, int64_t start_index) {
  if (!IsOpen(record, fence.migration_id, fence.attempt)) {
    return Refuse(absl::StatusCode::kAborted, "UNKNOWN_ATTEMPT",
                  fmt::format("{} is not open on request {}", AttemptName(fence.migration_id, fence.attempt), record.request_id));
  }
  RETURN_IF_ERROR(CheckFence(record, fence));
  if (record.cancelled) {
    return Refuse(absl::StatusCode::kAborted, "CANCELLED_BY_CALLER",
                  fmt::format("request {} was cancelled by its client", record.request_id));
  }
  if (start_index < record.start_index) {
    return Refuse(absl::StatusCode::kAborted, "BAD_RANGE",
                  fmt::format("request {}: start index {} is below the epoch's own {}", record.request_id, start_index,
                              record.start_index));
  }
  OwnerRecord next = record;
  next.previous = record.owner;
  next.owner = record.open->destination;
  next.epoch = record.epoch + 1;
  next.start_index = start_index;
  next.last_committed = fence.migration_id;
  next.last_attempt = fence.attempt;
  next.resumed = false;
  next.rolled_back = false;
  next.open.reset();
  return next;
}

absl::StatusOr<OwnerRecord> CloseAttempt(const OwnerRecord& record, const std::string& migration_id, uint32_t attempt) {
  if (IsLastCommit(record, migration_id, attempt)) {
    return Refuse(absl::StatusCode::kFailedPrecondition, "ALREADY_COMMITTED",
                  fmt::format("{} has already made {} the owner of request {}", AttemptName(migration_id, attempt),
                              record.owner.id, record.request_id));
  }
  if (!IsOpen(record, migration_id, attempt)) {
    return Refuse(absl::StatusCode::kFailedPrecondition, "UNKNOWN_ATTEMPT",
                  fmt::format("{} is not open on request {}", AttemptName(migration_id, attempt), record.request_id));
  }
  OwnerRecord next = record;
  next.open.reset();
  return next;
}

absl::StatusOr<OwnerRecord> ResumeOwner(const OwnerRecord& record, const Fence& fence, uint64_t new_epoch) {
  if (!IsLastCommit(record, fence.migration_id, fence.attempt) || record.rolled_back) {
    return Refuse(absl::StatusCode::kAborted, "NOT_OWNER",
                  fmt::format("{} does not own request {} through {}: {} does, at epoch {}", fence.destination_boot_id,
                              record.request_id, AttemptName(fence.migration_id, fence.attempt), record.owner.id, record.epoch));
  }
  if (record.epoch != new_epoch || record.epoch != fence.epoch + 1) {
    return EpochConflict(record.request_id, record.epoch, new_epoch);
  }
  if (record.owner.boot_id != fence.destination_boot_id) {
    return StaleFence(fence, "the owner's boot", record.owner.boot_id, fence.destination_boot_id);
  }
  OwnerRecord next = record;
  next.resumed = true;
  return next;
}

absl::StatusOr<OwnerRecord> RollBack(const OwnerRecord& record, const Fence& fence) {
  if (!IsLastCommit(record, fence.migration_id, fence.attempt) || record.rolled_back || record.epoch != fence.epoch + 1) {
    return Refuse(absl::StatusCode::kAborted, "UNKNOWN_ATTEMPT",
                  fmt::format("{} is not what made {} the owner of request {}", AttemptName(fence.migration_id, fence.attempt),
                              record.owner.id, record.request_id));
  }
  if (record.resumed) {
    return Refuse(absl::StatusCode::kFailedPrecondition, "ALREADY_COMMITTED",
                  fmt::format("{} has resumed request {}", record.owner.id, record.request_id));
  }
  OwnerRecord next = record;
  next.owner = record.previous;
  next.epoch = record.epoch + 1;
  next.resumed = true;
  next.rolled_back = true;
  return next;
}

OwnerRecord Cancel(OwnerRecord record) {
  record.cancelled = true;
  return record;
}

// Not a migration's commit: a late Resumed or roll-back of the last one must not match any more.
static void ForgetCommit(OwnerRecord& record) {
  record.last_committed.clear();
  record.last_attempt = 0;
  record.resumed = true;
  record.rolled_back = false;
}

absl::StatusOr<OwnerRecord> RecoverTo(const OwnerRecord& record, uint64_t epoch, const WorkerName& owner, int64_t start_index) {
  if (record.epoch != epoch) return EpochConflict(record.request_id, record.epoch, epoch);
  OwnerRecord next = record;
  next.previous = record.owner;
  next.owner = owner;
  next.epoch = record.epoch + 1;
  next.start_index = start_index;
  next.open.reset();
  ForgetCommit(next);
  return next;
}

absl::StatusOr<OwnerRecord> FollowWorker(const OwnerRecord& record, const WorkerName& owner, uint64_t epoch, int64_t start_index) {
  if (epoch <= record.epoch) return EpochConflict(record.request_id, record.epoch, epoch);
  OwnerRecord next = record;
  next.owner = owner;
  next.epoch = epoch;
  next.start_index = start_index;
  next.open.reset();
  next.previous = {};
  ForgetCommit(next);
  return next;
}

Decision DecisionOf(const OwnerRecord& record, const Fence& fence) {
  if (IsOpen(record, fence.migration_id, fence.attempt)) return Decision::kOpen;
  if (IsLastCommit(record, fence.migration_id, fence.attempt)) {
    if (record.rolled_back) return Decision::kRolledBack;
    return record.resumed ? Decision::kResumed : Decision::kCommitted;
  }
  // Still at the epoch the attempt opened at and not open: closed, or never opened. It cannot commit any more.
  if (record.epoch == fence.epoch) return Decision::kAborted;
  return Decision::kUnspecified;
}

}  // namespace riskkv

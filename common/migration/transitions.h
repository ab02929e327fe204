// Every legal change of an owner record, as pure functions: the record as read goes in, the record to write comes out, or the
// definite refusal. A store makes the change by a compare-and-swap on the revision that was read, so what is checked here
// holds at the moment of the write (protocol.md, 2 and 3).
#ifndef RISKKV_COMMON_MIGRATION_TRANSITIONS_H_
#define RISKKV_COMMON_MIGRATION_TRANSITIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/migration/records.h"

namespace riskkv {

// The record of a request that never moved: epoch 1, owned by the worker whose boot id its id contains. Not stored (revision 0).
OwnerRecord ImplicitOwner(const std::string& request_id, const WorkerName& owner);
// "<boot>" of a request id "<boot>-<hex>"; INVALID_ARGUMENT (BAD_ARGUMENT) when the id has another form.
absl::StatusOr<std::string> BootOfRequest(const std::string& request_id);

// EPOCH_CONFLICT naming both; ALREADY_MIGRATING when an attempt is open or a commit is not resumed yet; CANCELLED_BY_CALLER.
absl::StatusOr<OwnerRecord> OpenNewAttempt(const OwnerRecord& record, const OpenAttempt& attempt, uint64_t expected_epoch);

// The decision for commit: (destination, epoch + 1, start_index), not resumed. Refused (ABORTED) unless the fence's attempt is
// the open one, owner, boots, epoch and term agree, and the request is not cancelled.
absl::StatusOr<OwnerRecord> CommitAttempt(const OwnerRecord& record, const Fence& fence, int64_t start_index);

// The decision for abort. FAILED_PRECONDITION: ALREADY_COMMITTED when the attempt has changed the owner, UNKNOWN_ATTEMPT when it
// is not open (closed before, or never opened: it cannot commit any more either way).
absl::StatusOr<OwnerRecord> CloseAttempt(const OwnerRecord& record, const std::string& migration_id, uint32_t attempt);

// The destination may deliver. Refused (ABORTED) when rolled back or no longer the owner at new_epoch.
absl::StatusOr<OwnerRecord> ResumeOwner(const OwnerRecord& record, const Fence& fence, uint64_t new_epoch);

// (destination, n + 1) back to (source, n + 2). FAILED_PRECONDITION (ALREADY_COMMITTED) once resumed; ABORTED when it is not the
// fence's commit.
absl::StatusOr<OwnerRecord> RollBack(const OwnerRecord& record, const Fence& fence);

// A client cancelled the request: no attempt may commit.
OwnerRecord Cancel(OwnerRecord record);

// The owner is lost for good: closes any open attempt, (new owner, n + 1, start_index). EPOCH_CONFLICT naming both.
absl::StatusOr<OwnerRecord> RecoverTo(const OwnerRecord& record, uint64_t epoch, const WorkerName& owner, int64_t start_index);

// A worker holds the request at a higher epoch than the record: the store went back in time, and the worker wins. What else the record
// says is of a time before that epoch, so no attempt of then may commit, be resumed or rolled back any more. EPOCH_CONFLICT unless the
// epoch is higher.
absl::StatusOr<OwnerRecord> FollowWorker(const OwnerRecord& record, const WorkerName& owner, uint64_t epoch, int64_t start_index);

// What this record alone says of an attempt; kUnspecified when it says nothing (a later change hid it).
Decision DecisionOf(const OwnerRecord& record, const Fence& fence);

}  // namespace riskkv

#endif  // RISKKV_COMMON_MIGRATION_TRANSITIONS_H_

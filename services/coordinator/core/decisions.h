// Decisions on attempts: every compare-and-swap of protocol.md, 2 that a job makes, and what was decided. An OK answer is durable;
// an error is never a decision (the store is out of reach: ask again).
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_DECISIONS_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_DECISIONS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/store/store.h"
#include "services/coordinator/core/job.h"

namespace riskkv::coordinator {

struct DecisionReply {
  Decision decision = Decision::kUnspecified;
  uint64_t epoch = 0;  // of the owner record
  int64_t start_index = 0;
  WorkerName owner;
  absl::Status reason;  // of an abort or a roll-back
  // The request has gone on under a later epoch without this attempt (Recover, or records of it that are gone): whatever it came to, it
  // never resumes and is never rolled back. `decision` is kCommitted.
  bool superseded = false;
};

// What each side may do after a superseded commit: the source frees, the destination never delivers.
DecisionReply ForSource(DecisionReply reply);
DecisionReply ForDestination(DecisionReply reply);

// Thread-safe. `job` may be null where it is a pointer: the job is not known (any more), and the owner record alone answers.
class Decisions {
 public:
  Decisions(Store* store, const Clock* clock) : store_(store), clock_(clock) {}

  // Opens the attempt: the owner record (inserted if absent, owned by attempt.source) and the job in one transaction. Refusals as
  // OpenNewAttempt; CANCELLED_BY_CALLER when the job was cancelled.
  absl::Status Open(Job& job, const AttemptRecord& attempt) const;
  // The destination is prepared: commits, or answers what was decided before. Never kOpen. UNAVAILABLE (NOT_READY) while the attempt is
  // open and the job's source_unasked(): ask again.
  absl::StatusOr<DecisionReply> Prepared(Job* job, const Fence& fence, int64_t start_index) const;
  // The destination may deliver: kResumed, or what excludes it.
  absl::StatusOr<DecisionReply> Resumed(Job* job, const Fence& fence, uint64_t new_epoch) const;
  // Closes the attempt if it is open; answers what is decided. Never kOpen.
  absl::StatusOr<DecisionReply> Close(Job& job, const Fence& fence, const absl::Status& reason) const;
  // Gives the request back to the source unless the destination resumed: kRolledBack, kResumed, or a superseded kCommitted.
  absl::StatusOr<DecisionReply> RollBack(Job& job, const Fence& fence, const absl::Status& reason) const;
  // What is decided; kOpen when nothing is. NOT_FOUND (UNKNOWN_ATTEMPT) when no record speaks of the attempt, which is not a decision:
  // it may have committed before the records were lost.
  absl::StatusOr<DecisionReply> Look(const Job* job, const Fence& fence) const;

 private:
  absl::StatusOr<OwnerRecord> Owner(const std::string& request_id) const;

  Store* const store_;
  const Clock* const clock_;
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_DECISIONS_H_

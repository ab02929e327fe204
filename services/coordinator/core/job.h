// One migration job while it lives in this process: its record, its watchers and its signals. The record is changed in one place,
// Transact, which makes the owner record and the job change in one transaction of the store.
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_JOB_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_JOB_H_

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/store/store.h"

namespace riskkv::coordinator {

// A change of the owner record (common/migration/transitions.h).
using Transition = std::function<absl::StatusOr<OwnerRecord>(const OwnerRecord&)>;

// Thread-safe. Transact holds the job's lock while the store writes, so that the job's record and the store never disagree; watchers
// wait that long.
class Job {
 public:
  // `deadline`: from now on, not from acceptance.
  Job(JobRecord record, const Clock* clock, absl::Duration deadline);

  const std::string& id() const { return spec_.migration_id; }
  const JobSpec& spec() const { return spec_; }
  JobRecord Snapshot() const;
  MigrationState state() const;
  std::optional<AttemptRecord> Attempt(uint32_t attempt) const;
  // Time left until the job's deadline; not positive when it has passed.
  absl::Duration TimeLeft() const { return deadline_at_ - clock_->Monotonic(); }
  double ElapsedMs() const;

  // Adds an event, in memory until the next transaction. False, and nothing is added, when (attempt, state) would not grow.
  bool Emit(uint32_t attempt, MigrationState state, uint64_t epoch, EventDetail detail = {});

  struct Change {
    std::function<void(JobRecord&, const OwnerRecord&)> mutate;  // on a copy, under the lock; with the owner record to be written
    std::map<std::string, int64_t> counters;
  };
  // Reads the owner record (`absent` when there is none), applies `transition`, and writes both records in one transaction, again when the
  // owner record changed in between. Returns the owner record as written. The transition's refusal and the store's errors (see
  // store.h) are passed on; nothing changed then, or, after UNAVAILABLE, the next call finds out.
  absl::StatusOr<OwnerRecord> Transact(Store& store, const OwnerRecord& absent, const Transition& transition, const Change& change);
  // Writes the job's record alone.
  absl::Status Save(Store& store, const Change& change);

  // Appends an event to a record inside `mutate`. Drops it when (attempt, state) would not grow.
  bool Append(JobRecord& record, uint32_t attempt, MigrationState state, uint64_t epoch, EventDetail detail = {}) const;

  // Events with seq >= from_seq, at once if there are any, else as soon as one comes or `timeout` passes. `ended`: nothing follows.
  struct Batch {
    std::vector<JobEvent> events;
    bool ended = false;
    bool in_doubt = false;
  };
  Batch WaitEvents(uint64_t from_seq, absl::Duration timeout) const;

  // How long the durable decision for commit took.
  void set_commit_ms(double ms) { commit_ms_ = ms; }
  double commit_ms() const { return commit_ms_; }

  // The record came from the store with its last attempt open. That may be news from before the attempt's end, when a backup was put
  // back: until the source has said that the attempt is open it must not commit.
  void set_source_unasked(uint32_t attempt) { source_unasked_ = attempt; }  // 0: none
  uint32_t source_unasked() const { return source_unasked_; }

  // Signals to the runner.
  void RequestCancel();
  bool cancel_requested() const;
  void SetInDoubt(bool in_doubt);
  void Wake();
  // Returns when something changed since the last call of this method by the runner, or after `timeout`.
  void WaitChange(absl::Duration timeout);

 private:
  absl::Status Reconcile(Store& store) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Write(Store& store, std::optional<OwnerRecord>& owner, JobRecord next, const Change& change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const JobSpec spec_;
  const Clock* const clock_;
  const absl::Duration started_at_;   // monotonic
  const double elapsed_before_ms_;    // before a restart of the coordinator, by the wall clock
  const absl::Duration deadline_at_;  // monotonic
  std::atomic<double> commit_ms_{0};
  std::atomic<uint32_t> source_unasked_{0};
  mutable Mutex mu_;
  mutable CondVar changed_;
  JobRecord record_ ABSL_GUARDED_BY(mu_);
  bool uncertain_ ABSL_GUARDED_BY(mu_) = false;  // the stored record may be another than record_
  bool cancel_ ABSL_GUARDED_BY(mu_) = false;
  bool signalled_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_JOB_H_

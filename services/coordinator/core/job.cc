#include "services/coordinator/core/job.h"

#include <algorithm>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::coordinator {
namespace {

constexpr int kMostTries = 16;  // a compare-and-swap that loses as often means a bug, not a race
// After a restart: above anything a watcher may have seen of events that were not written yet.
constexpr uint64_t kSeqGap = 1000;

double Ms(absl::Duration d) { return absl::ToDoubleMilliseconds(d); }

}  // namespace

Job::Job(JobRecord record, const Clock* clock, absl::Duration deadline)
    : spec_(record.spec),
      clock_(clock),
      started_at_(clock->Monotonic()),
      elapsed_before_ms_(record.events.empty() ? 0 : std::max(0.0, Ms(clock->Now() - record.accepted_at))),
      deadline_at_(clock->Monotonic() + deadline),
      record_(std::move(record)) {}

JobRecord Job::Snapshot() const {
  MutexLock lock(mu_);
  return record_;
}

MigrationState Job::state() const {
  MutexLock lock(mu_);
  return record_.state;
}

std::optional<AttemptRecord> Job::Attempt(uint32_t attempt) const {
  MutexLock lock(mu_);
  const AttemptRecord* found = record_.Find(attempt);
  return found == nullptr ? std::nullopt : std::optional<AttemptRecord>(*found);
}

double Job::ElapsedMs() const { return elapsed_before_ms_ + Ms(clock_->Monotonic() - started_at_); }

bool Job::Append(JobRecord& record, uint32_t attempt, MigrationState state, uint64_t epoch, EventDetail detail) const {
  uint32_t last_attempt = record.events.empty() ? 0 : record.events.back().attempt;
  if (!record.events.empty() && !MayFollow(last_attempt, record.state, attempt, state)) return false;
  bool restarted = elapsed_before_ms_ > 0 && !record.events.empty() && record.events.back().elapsed_ms <= elapsed_before_ms_;
  JobEvent event;
  event.seq = record.events.empty() ? 1 : record.events.back().seq + (restarted ? kSeqGap : 1);
  event.state = state;
  event.attempt = attempt;
  event.epoch = epoch;
  event.time = clock_->Now();
  event.elapsed_ms = ElapsedMs();
  event.detail = std::move(detail);
  record.events.push_back(std::move(event));
  record.state = state;
  record.updated_at = clock_->Now();
  return true;
}

bool Job::Emit(uint32_t attempt, MigrationState state, uint64_t epoch, EventDetail detail) {
  MutexLock lock(mu_);
  if (!Append(record_, attempt, state, epoch, std::move(detail))) return false;
  Changed();
  return true;
}

// After UNAVAILABLE the store may hold what was to be written, or may hold it later (etcd); after ABORTED it may be that the record is
// what changed. What it holds is the truth, with what was added since.
absl::Status Job::Reconcile(Store& store) {
  if (!uncertain_) return absl::OkStatus();
  absl::StatusOr<JobRecord> stored = store.GetJob(spec_.migration_id);
  if (!stored.ok() && !absl::IsNotFound(stored.status())) return stored.status();
  uncertain_ = false;
  if (!stored.ok() || stored->revision == record_.revision) return absl::OkStatus();
  uint64_t last = stored->events.empty() ? 0 : stored->events.back().seq;
  for (const JobEvent& event : record_.events) {
    if (event.seq > last) stored->events.push_back(event);
  }
  record_ = *std::move(stored);
  Changed();
  return absl::OkStatus();
}

absl::Status Job::Write(Store& store, std::optional<OwnerRecord>& owner, JobRecord next, const Change& change) {
  const bool split = owner && RISKKV_MUTANT("owner and job written in two transactions");
  if (split) {
    RETURN_IF_ERROR(store.Commit({.owner = owner}).status());
    RISKKV_FAILPOINT("between two transactions", spec_.migration_id);
  }
  absl::StatusOr<Revisions> written =
      store.Commit({.owner = split ? std::nullopt : owner, .job = next, .add = change.counters});
  if (!written.ok()) {
    uncertain_ = absl::IsUnavailable(written.status()) || absl::IsAborted(written.status());
    return written.status();
  }
  if (owner && !split) owner->revision = written->owner;
  next.revision = written->job;
  record_ = std::move(next);
  Changed();
  return absl::OkStatus();
}

absl::StatusOr<OwnerRecord> Job::Transact(Store& store, const OwnerRecord& absent, const Transition& transition,
                                          const Change& change) {
  MutexLock lock(mu_);
  absl::Status last;
  for (int i = 0; i < kMostTries; ++i) {
    RETURN_IF_ERROR(Reconcile(store));
    absl::StatusOr<OwnerRecord> read = store.GetOwner(spec_.request_id);
    if (absl::IsNotFound(read.status())) read = absent;
    if (!read.ok()) return read.status();
    ASSIGN_OR_RETURN(std::optional<OwnerRecord> next_owner, transition(*read));
    JobRecord next = record_;
    if (change.mutate) change.mutate(next, *next_owner);
    last = Write(store, next_owner, std::move(next), change);
    if (last.ok()) return *std::move(next_owner);
    if (!absl::IsAborted(last)) return last;
  }
  return Annotate(last, fmt::format("migration {} gave up after {} tries", spec_.migration_id, kMostTries));
}

absl::Status Job::Save(Store& store, const Change& change) {
  MutexLock lock(mu_);
  absl::Status last;
  for (int i = 0; i < kMostTries; ++i) {
    RETURN_IF_ERROR(Reconcile(store));
    JobRecord next = record_;
    if (change.mutate) change.mutate(next, OwnerRecord());
    std::optional<OwnerRecord> no_owner;
    last = Write(store, no_owner, std::move(next), change);
    if (!absl::IsAborted(last)) return last;
  }
  return last;
}

Job::Batch Job::WaitEvents(uint64_t from_seq, absl::Duration timeout) const {
  auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  MutexLock lock(mu_);
  for (;;) {
    Batch batch;
    batch.ended = IsTerminal(record_.state);
    batch.in_doubt = record_.in_doubt;
    for (const JobEvent& event : record_.events) {
      if (event.seq >= from_seq) batch.events.push_back(event);
    }
    auto now = std::chrono::steady_clock::now();
    if (!batch.events.empty() || batch.ended || batch.in_doubt || now >= until) return batch;
    changed_.WaitFor(mu_, until - now);
  }
}

void Job::Changed() {
  signalled_ = true;
  changed_.NotifyAll();
}

void Job::RequestCancel() {
  MutexLock lock(mu_);
  cancel_ = true;
  Changed();
}

bool Job::cancel_requested() const {
  MutexLock lock(mu_);
  return cancel_;
}

void Job::SetInDoubt(bool in_doubt) {
  MutexLock lock(mu_);
  if (record_.in_doubt == in_doubt) return;
  record_.in_doubt = in_doubt;
  Changed();
}

void Job::Wake() {
  MutexLock lock(mu_);
  Changed();
}

void Job::WaitChange(absl::Duration timeout) {
  MutexLock lock(mu_);
  if (!signalled_) changed_.WaitFor(mu_, absl::ToChronoNanoseconds(timeout));
  signalled_ = false;
}

}  // namespace riskkv::coordinator

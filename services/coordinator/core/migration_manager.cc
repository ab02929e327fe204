// Accepting and running jobs. What workers and clients ask is in manager_requests.cc.
#include "services/coordinator/core/migration_manager.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/base/status.h"
#include "fmt/format.h"
#include "services/coordinator/core/job_runner.h"
#include "services/coordinator/core/owner_pruner.h"

namespace riskkv::coordinator {
namespace {

constexpr std::chrono::milliseconds kHouseEvery{25};

absl::Status AlreadyMigrating(const std::string& request, const std::string& by) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "ALREADY_MIGRATING",
                   fmt::format("request {} is being moved by migration {}", request, by));
}

}  // namespace

MigrationManager::MigrationManager(ManagerOptions options, Dependencies d)
    : decisions_(d.store, d.clock),
      planner_(d.registry, d.links, d.corrections, d.store, d.api),
      notifier_(options.notifier, d.api, d.registry, d.clock, d.log),
      core_{.options = options,
            .store = d.store,
            .clock = d.clock,
            .registry = d.registry,
            .links = d.links,
            .corrections = d.corrections,
            .api = d.api,
            .planner = &planner_,
            .decisions = &decisions_,
            .notifier = &notifier_,
            .log = d.log,
            .stopping = &stopping_},
      admission_(core_) {}

absl::StatusOr<std::unique_ptr<MigrationManager>> MigrationManager::Start(ManagerOptions options, Dependencies dependencies) {
  std::unique_ptr<MigrationManager> manager(new MigrationManager(std::move(options), std::move(dependencies)));
  RETURN_IF_ERROR(manager->RecoverJobs());
  MigrationManager* m = manager.get();
  for (int i = 0; i < m->core_.options.max_jobs; ++i) m->threads_.emplace_back([m] { m->RunLoop(); });
  m->threads_.emplace_back([m] { m->KeepHouse(); });
  m->threads_.emplace_back([m] { m->Prune(); });
  return manager;
}

MigrationManager::~MigrationManager() {
  stopping_ = true;
  {
    MutexLock lock(mu_);
    for (auto& [id, job] : active_) job->Wake();
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Status MigrationManager::RecoverJobs() {
  ASSIGN_OR_RETURN(std::vector<JobRecord> jobs, core_.store->ListJobs({.active_only = true}));
  for (JobRecord& record : jobs) {
    core_.log->info("mig={} req={} found in state {}", record.spec.migration_id, record.spec.request_id, Name(record.state));
    // What the job had left. The time without a coordinator is not counted: only two hosts' clocks could tell it.
    absl::Duration deadline = Deadline(record.spec);
    if (!record.events.empty()) deadline -= absl::Milliseconds(record.events.back().elapsed_ms);
    const bool cancelled = record.cancelled;
    const AttemptRecord* last = record.last_attempt();
    const uint32_t open = last != nullptr && last->decision == Decision::kOpen ? last->attempt : 0;
    auto job = std::make_shared<Job>(std::move(record), core_.clock, deadline);
    if (cancelled) job->RequestCancel();
    job->set_source_unasked(open);
    {
      MutexLock lock(mu_);
      active_[job->id()] = job;
      active_by_request_.emplace(job->spec().request_id, job->id());
    }
    Enqueue(job, /*recover=*/true);
  }
  return absl::OkStatus();
}

absl::Duration MigrationManager::Deadline(const JobSpec& spec) const {
  return spec.deadline_ms > 0 ? absl::Milliseconds(spec.deadline_ms) : core_.options.default_deadline;
}

std::shared_ptr<Job> MigrationManager::Active(const std::string& migration_id) const {
  MutexLock lock(mu_);
  auto it = active_.find(migration_id);
  return it == active_.end() ? nullptr : it->second;
}

absl::StatusOr<std::shared_ptr<Job>> MigrationManager::Find(const std::string& migration_id) const {
  if (auto job = Active(migration_id)) return job;
  ASSIGN_OR_RETURN(JobRecord record, core_.store->GetJob(migration_id));
  return std::make_shared<Job>(std::move(record), core_.clock, absl::ZeroDuration());
}

absl::StatusOr<std::shared_ptr<Job>> MigrationManager::Join(const JobSpec& spec, const std::string& digest) const {
  ASSIGN_OR_RETURN(std::shared_ptr<Job> job, Find(spec.migration_id));
  if (job->Snapshot().body_digest != digest) {
    return MakeError(absl::StatusCode::kAlreadyExists, "ID_REUSED_WITH_DIFFERENT_BODY",
                     fmt::format("migration {} exists with another body: it moves request {} to {}", spec.migration_id,
                                 job->spec().request_id, job->spec().destination));
  }
  return job;
}

absl::StatusOr<std::shared_ptr<Job>> MigrationManager::StartJob(JobSpec spec) {
  RETURN_IF_ERROR(Admission::CheckSpec(spec, /*plan_only=*/false));
  const std::string digest = BodyDigest(spec);
  {
    // One start of an id at a time: the second joins what the first made, or tries itself when that was refused.
    MutexLock lock(mu_);
    while (starting_.count(spec.migration_id) > 0 && !stopping_) changed_.Wait(mu_);
    starting_.insert(spec.migration_id);
  }
  absl::Cleanup done = [&] {
    MutexLock lock(mu_);
    starting_.erase(spec.migration_id);
    changed_.NotifyAll();
  };
  auto joined = Join(spec, digest);
  if (joined.ok() || !absl::IsNotFound(joined.status())) return joined;
  return Create(spec, digest);
}

absl::StatusOr<std::shared_ptr<Job>> MigrationManager::Create(const JobSpec& spec, const std::string& digest) {
  {
    MutexLock lock(mu_);
    if (auto other = MovingNow(spec.request_id)) return AlreadyMigrating(spec.request_id, *other);
    if (queue_.size() >= static_cast<std::size_t>(core_.options.max_queued)) {
      return MakeError(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
                       fmt::format("{} migrations are waiting already", queue_.size()));
    }
  }
  ASSIGN_OR_RETURN(Admitted facts, admission_.Check(spec));
  JobRecord record;
  record.spec = spec;
  record.body_digest = digest;
  record.source = facts.source.name;
  record.destination = facts.destination.name;
  record.accepted_at = core_.clock->Now();
  record.updated_at = record.accepted_at;
  auto job = std::make_shared<Job>(std::move(record), core_.clock, Deadline(spec));
  RETURN_IF_ERROR(Enter(job));
  job->Emit(1, MigrationState::kAccepted, facts.owner.epoch);
  absl::Status saved = job->Save(*core_.store, {});
  // After UNAVAILABLE it may be recorded, or be so later: the job must go on, or a record would stay that nobody carries out.
  if (!saved.ok() && !absl::IsUnavailable(saved)) {
    Leave(job->id());
    return saved;
  }
  core_.log->info("mig={} req={} accepted: {} -> {} {}", job->id(), spec.request_id, facts.source.name.id, facts.destination.name.id,
                  Name(spec.mode));
  Enqueue(job, /*recover=*/false);
  return job;
}

// A job whose end can be seen is no hindrance, even if its thread has not put it away yet.
std::optional<std::string> MigrationManager::MovingNow(const std::string& request_id) const {
  auto it = active_by_request_.find(request_id);
  if (it == active_by_request_.end()) return std::nullopt;
  auto job = active_.find(it->second);
  if (job == active_.end() || IsTerminal(job->second->state())) return std::nullopt;
  return it->second;
}

// At most one job a request.
absl::Status MigrationManager::Enter(const std::shared_ptr<Job>& job) {
  MutexLock lock(mu_);
  if (auto other = MovingNow(job->spec().request_id)) return AlreadyMigrating(job->spec().request_id, *other);
  active_by_request_[job->spec().request_id] = job->id();
  active_[job->id()] = job;
  return absl::OkStatus();
}

void MigrationManager::Leave(const std::string& migration_id) {
  MutexLock lock(mu_);
  auto it = active_.find(migration_id);
  if (it == active_.end()) return;
  auto by_request = active_by_request_.find(it->second->spec().request_id);
  if (by_request != active_by_request_.end() && by_request->second == migration_id) active_by_request_.erase(by_request);
  active_.erase(it);
}

void MigrationManager::Enqueue(std::shared_ptr<Job> job, bool recover) {
  MutexLock lock(mu_);
  queue_.push_back({std::move(job), recover});
  changed_.NotifyAll();
}

void MigrationManager::RunLoop() {
  for (;;) {
    Queued next;
    {
      MutexLock lock(mu_);
      while (queue_.empty() && !stopping_) changed_.Wait(mu_);
      if (stopping_) return;
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    JobRunner runner(core_, &admission_, next.job.get());
    if (next.recover) {
      runner.Recover();
    } else {
      runner.Run();
    }
    Leave(next.job->id());
  }
}

// Jobs that wait for a thread keep their deadline and can be cancelled.
void MigrationManager::AbandonExpired() {
  std::vector<std::pair<std::shared_ptr<Job>, absl::Status>> expired;
  {
    MutexLock lock(mu_);
    for (auto it = queue_.begin(); it != queue_.end();) {
      absl::Status stop = it->recover ? absl::OkStatus() : StopReason(*it->job);
      if (stop.ok()) {
        ++it;
        continue;
      }
      expired.emplace_back(it->job, stop);
      it = queue_.erase(it);
    }
  }
  for (auto& [job, stop] : expired) {
    if (absl::IsDeadlineExceeded(stop)) {
      stop = MakeError(absl::StatusCode::kDeadlineExceeded, "DEADLINE_QUEUE",
                       fmt::format("migration {} waited for its turn until its deadline", job->id()));
    }
    JobRunner(core_, &admission_, job.get()).Abandon(stop);
    Leave(job->id());
  }
}

void MigrationManager::KeepHouse() {
  for (;;) {
    {
      MutexLock lock(mu_);
      if (!stopping_) changed_.WaitFor(mu_, kHouseEvery);
      if (stopping_) return;
    }
    AbandonExpired();
  }
}

// On a thread of its own: it asks workers, which may be slow.
void MigrationManager::Prune() {
  OwnerPruner owners(core_);
  absl::Duration pruned = core_.clock->Monotonic();
  for (;;) {
    {
      MutexLock lock(mu_);
      if (!stopping_) changed_.WaitFor(mu_, kHouseEvery);
      if (stopping_) return;
    }
    absl::Duration now = core_.clock->Monotonic();
    if (now - pruned < core_.options.prune_every) continue;
    pruned = now;
    auto removed = core_.store->PruneJobs(core_.clock->Now() - core_.options.retention, core_.options.retained);
    if (!removed.ok()) core_.log->warn("cannot remove old job records: {}", removed.status());
    if (auto gone = owners.Pass(); !gone.ok()) core_.log->warn("cannot remove old owner records: {}", gone.status());
  }
}

absl::StatusOr<std::vector<JobRecord>> MigrationManager::List(const JobFilter& filter) const {
  ASSIGN_OR_RETURN(std::vector<JobRecord> jobs, core_.store->ListJobs(filter));
  // What runs is ahead of its stored record.
  for (JobRecord& job : jobs) {
    if (auto active = Active(job.spec.migration_id)) job = active->Snapshot();
  }
  return jobs;
}

absl::StatusOr<Plan> MigrationManager::MakePlan(JobSpec spec) const {
  RETURN_IF_ERROR(Admission::CheckSpec(spec, /*plan_only=*/true));
  ASSIGN_OR_RETURN(Admitted facts, admission_.Check(spec));
  return planner_.Make(spec, facts.source, facts.destination, facts.request, /*measure=*/true).plan;
}

}  // namespace riskkv::coordinator

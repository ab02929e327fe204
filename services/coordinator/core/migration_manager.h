// All migrations of one coordinator: accepts them, runs them on a bounded number of threads, answers the workers' questions about
// attempts, and keeps their records.
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_MIGRATION_MANAGER_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_MIGRATION_MANAGER_H_

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "services/coordinator/core/admission.h"
#include "services/coordinator/core/context.h"
#include "services/coordinator/core/job.h"

namespace riskkv::coordinator {

struct Dependencies {
  Store* store = nullptr;
  const Clock* clock = nullptr;
  WorkerRegistry* registry = nullptr;
  cost::LinkTable* links = nullptr;
  cost::Corrections* corrections = nullptr;
  WorkerApi* api = nullptr;
  Logger log;
};

struct Location {
  std::string request_id;
  WorkerName owner;
  uint64_t epoch = 0;
  int64_t start_index = 0;
  bool migrating = false;
  bool cancelled = false;
};

struct RecoverArgs {
  std::string request_id;
  uint64_t epoch = 0;
  int64_t received = 0;      // output tokens the caller holds: start_index of the new epoch
  std::string destination;   // empty: any with room
  std::string recover_request;  // see AdoptArgs
};

// Thread-safe. Every dependency outlives it.
class MigrationManager {
 public:
  // Carries on the jobs that a coordinator before this one left (job_recovery.cc). Fails only when the store cannot be read.
  static absl::StatusOr<std::unique_ptr<MigrationManager>> Start(ManagerOptions options, Dependencies dependencies);
  // Stops without deciding anything: running jobs stay in the store as they are.
  ~MigrationManager();

  // Starts the job, or joins the one of the same id and body. ALREADY_EXISTS (ID_REUSED_WITH_DIFFERENT_BODY), RESOURCE_EXHAUSTED
  // (QUEUE_FULL), and as Admission.
  absl::StatusOr<std::shared_ptr<Job>> StartJob(JobSpec spec);
  // Active, or terminal and still kept. NOT_FOUND (UNKNOWN_MIGRATION).
  absl::StatusOr<std::shared_ptr<Job>> Find(const std::string& migration_id) const;
  absl::StatusOr<std::vector<JobRecord>> List(const JobFilter& filter) const;
  // OK once it is certain that the job will not move the request: the attempt is closed. FAILED_PRECONDITION (ALREADY_COMMITTED).
  absl::StatusOr<std::shared_ptr<Job>> CancelJob(const std::string& migration_id);
  absl::StatusOr<Plan> MakePlan(JobSpec spec) const;

  // --- what workers ask (Registry) ---
  // A fence that is not the one its attempt was opened under (epoch, boots, leader term, request) never commits, resumes or closes anything,
  // and is counted: Prepared answers it ABORTED, Resumed ROLLED_BACK, Resolve STALE_FENCE. NOT_FOUND (UNKNOWN_ATTEMPT), which is no decision,
  // when no record speaks of the attempt.
  absl::StatusOr<DecisionReply> Prepared(const Fence& fence, int64_t start_index);
  absl::StatusOr<DecisionReply> Resumed(const Fence& fence, uint64_t new_epoch);
  // give_up closes an attempt that is still open.
  absl::StatusOr<DecisionReply> Resolve(const Fence& fence, bool give_up, std::string_view side);
  int64_t stale_refusals() const { return stale_refusals_; }
  // True: an owner record exists, and carries the flag now.
  absl::StatusOr<bool> CancelRequest(const std::string& request_id);

  // --- clients ---
  absl::StatusOr<Location> Locate(const std::string& request_id) const;
  // EPOCH_CONFLICT naming both; FAILED_PRECONDITION (NOT_OWNER) while the owner holds its lease; as Worker.Adopt.
  absl::StatusOr<Location> Recover(const RecoverArgs& args);

 private:
  MigrationManager(ManagerOptions options, Dependencies dependencies);
  absl::Status RecoverJobs();
  absl::Status CheckStale(const Job* job, const Fence& fence);
  std::shared_ptr<Job> Active(const std::string& migration_id) const;
  absl::StatusOr<std::shared_ptr<Job>> Join(const JobSpec& spec, const std::string& digest) const;
  absl::StatusOr<std::shared_ptr<Job>> Create(const JobSpec& spec, const std::string& digest);
  // The migration that moves the request.
  std::optional<std::string> MovingNow(const std::string& request_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Enter(const std::shared_ptr<Job>& job);
  void Leave(const std::string& migration_id);
  void Enqueue(std::shared_ptr<Job> job, bool recover);
  void RunLoop();
  void KeepHouse();
  void Prune();
  absl::Duration Deadline(const JobSpec& spec) const;
  void AbandonExpired();
  absl::StatusOr<OwnerRecord> ChangeOwner(const std::string& request_id, const Transition& transition);
  absl::StatusOr<WorkerInfo> Adopter(const RecoverArgs& args) const;
  // OK when the owner is gone, or is there and has nothing of the request. NOT_OWNER, or NOT_READY while nobody can know.
  absl::Status CheckLost(const OwnerRecord& record) const;
  // The boot that answers at the worker's address now; BOOT_ID_CHANGED when it is not the one that is registered.
  absl::Status ConfirmBoot(const WorkerName& worker) const;
  DecisionReply Addressed(DecisionReply reply) const;

  struct Queued {
    std::shared_ptr<Job> job;
    bool recover = false;
  };

  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> stale_refusals_{0};
  Decisions decisions_;
  Planner planner_;
  Notifier notifier_;
  CoreContext core_;
  Admission admission_;
  mutable Mutex mu_;
  CondVar changed_;
  std::map<std::string, std::shared_ptr<Job>> active_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::string> active_by_request_ ABSL_GUARDED_BY(mu_);  // request -> migration
  std::set<std::string> starting_ ABSL_GUARDED_BY(mu_);
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_MIGRATION_MANAGER_H_

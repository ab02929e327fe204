// One job: plan, attempts with their fallbacks, terminal record.
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_JOB_RUNNER_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_JOB_RUNNER_H_

#include <optional>

#include "services/coordinator/core/admission.h"
#include "services/coordinator/core/attempt_runner.h"
#include "services/coordinator/core/context.h"
#include "services/coordinator/core/job.h"

namespace riskkv::coordinator {

// Used by one thread at a time.
class JobRunner {
 public:
  JobRunner(const CoreContext& core, const Admission* admission, Job* job) : core_(core), admission_(admission), job_(job) {}

  // From ACCEPTED to the terminal record.
  void Run();
  // The same for a job that a coordinator before this one left, from what the records say (job_recovery.cc).
  void Recover();
  // Ends a job that has no open attempt.
  void Abandon(const absl::Status& why) { Finish(MigrationState::kAborted, why); }

 private:
  // Plans, and carries out `mode`, or, when it is unspecified, what the plan chose.
  void Proceed(const Admitted& facts, Mode mode);
  void RunAttempts(const Admitted& facts, const PlanResult& planned);
  // Sets attempt_ and mode_ to the next way down; false: there is none, and the job has ended.
  bool FallBack(const absl::Status& why);
  void Refused(const absl::Status& why);
  void GoOn(Mode mode);
  absl::StatusOr<Admitted> AwaitWorkers() const;
  AttemptResult RunAttempt(Mode mode, const Admitted& facts, const PlanResult& planned);
  absl::Status PossibleNow(Mode mode, const PlanResult& planned) const;
  // Makes source and destination hold the set.
  absl::Status PlaceSet(const ProfileChoice& choice, const WorkerInfo& source, const WorkerInfo& destination);
  absl::Status Fetch(const ProfileChoice& choice, const WorkerInfo& worker);
  // True: the job has ended.
  bool Settle(const AttemptResult& result, Mode mode);
  void Finish(MigrationState state, const absl::Status& why);
  Outcome MakeOutcome(MigrationState state, const absl::Status& why) const;
  void Learn(const AttemptResult& result, Mode mode) const;

  const CoreContext& core_;
  const Admission* const admission_;
  Job* const job_;
  uint32_t attempt_ = 1;
  uint64_t epoch_ = 0;
  Mode mode_ = Mode::kStay;  // being carried out
  Plan plan_;
  std::optional<AttemptResult> result_;  // of the last attempt
  std::string predictor_set_;
  std::string profile_;
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_JOB_RUNNER_H_

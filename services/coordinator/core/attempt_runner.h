// One attempt of a job, from opening it to RESUMED, roll-back or its definite end before the decision.
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_ATTEMPT_RUNNER_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_ATTEMPT_RUNNER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/coordinator/core/context.h"
#include "services/coordinator/core/job.h"
#include "services/coordinator/core/move_pump.h"

namespace riskkv::coordinator {

struct AttemptResult {
  enum class Kind {
    kResumed,     // the destination owns the request
    kClosed,      // definitely not committed, for `why`: the source goes on
    kEnded,       // the request ended first; closed
    kRolledBack,  // committed, and given back to the source
    kLost,        // committed, not resumed, and both workers are gone: the record names the destination; or the request was recovered
    kStopped,     // this process ends; the records say how to go on
  };
  Kind kind = Kind::kClosed;
  absl::Status why;
  std::optional<MoveStats> stats;
  double pause_ms = 0;
  double commit_ms = 0;
  double real_seconds = 0;  // from StartMove to the decision
};

// Why a running job must end; OK: it may go on. DEADLINE_TOTAL, CANCELLED_BY_CALLER.
absl::Status StopReason(const Job& job);

// Used once, by the job's thread.
class AttemptRunner {
 public:
  AttemptRunner(const CoreContext& core, Job* job, AttemptRecord attempt, RequestInfo request, Fingerprint fingerprint);
  // Opens, reserves, moves, decides, resumes.
  AttemptResult Run();
  // --- after a restart of the coordinator ---
  // The attempt is committed and not resumed.
  AttemptResult Continue();
  // The attempt is open: joins the source where it is, and only then lets it commit. NOT_LEADER in `why`: the source does not hold it;
  // closed.
  AttemptResult Rejoin();
  // The attempt is closed: tells both, again.
  AttemptResult TellClosed();

 private:
  absl::Status Reserve();
  // --- a store that went back in time ---
  std::optional<AttemptResult> CommitAgain(MigrationState at_source);
  void ResumeAgain(MigrationState at_worker);
  void AskWhetherResumed();
  void Start();
  // Takes what the source said; sets failure_ or ended_.
  void Drain();
  void Handle(MoveEvent event);
  bool Told(const MoveEvent& event) const;
  void HandleStreamEnd(const absl::Status& status);
  // The attempt cannot go on: the stop reasons, the source's failure, a worker that is gone.
  absl::Status Trouble();
  absl::Status Gone(const WorkerName& worker, std::string_view side) const;
  AttemptResult AwaitDecision();
  void GiveToDestination();
  AttemptResult CloseFor(absl::Status why);
  AttemptResult Closed(const absl::Status& why);
  AttemptResult AwaitResume();
  absl::Status ResumeTrouble();
  std::optional<AttemptResult> TryRollBack(const absl::Status& why);
  AttemptResult Finished();
  void AwaitStats();
  double PreparedToResumedMs() const;
  AttemptResult Result(AttemptResult::Kind kind, absl::Status why = absl::OkStatus()) const;
  DecideArgs Args(Decision decision, const absl::Status& reason = absl::OkStatus()) const;
  Decision Current() const;
  bool Emit(MigrationState state, EventDetail detail = {});

  const CoreContext& core_;
  Job* const job_;
  const AttemptRecord attempt_;
  const RequestInfo request_;
  const Fingerprint fingerprint_;
  const Fence fence_;
  std::unique_ptr<MovePump> pump_;
  absl::Status failure_;
  bool ended_ = false;
  bool rejoined_ = false;
  std::optional<MoveStats> stats_;
  std::optional<absl::Duration> started_at_;
  std::optional<absl::Duration> paused_at_;
  std::optional<absl::Duration> committed_at_;
  std::optional<absl::Duration> resumed_at_;
  absl::Duration next_query_;
  absl::Duration next_nudge_;
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_ATTEMPT_RUNNER_H_

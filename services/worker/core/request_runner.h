// One turn of the decode loop: timers, cancels, admission, one step, and what comes of it.
#ifndef RISKKV_SERVICES_WORKER_CORE_REQUEST_RUNNER_H_
#define RISKKV_SERVICES_WORKER_CORE_REQUEST_RUNNER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/engine/engine.h"
#include "services/worker/core/request_record.h"
#include "services/worker/core/scheduler.h"

namespace riskkv::worker {

// Everything here runs on the loop's thread (or on the one thread there is once the loop has ended).
class RequestRunner {
 public:
  // Both must outlive it.
  RequestRunner(ManagerState* state, Engine* engine) : s_(*state), engine_(*engine) {}

  // True when there is more to do at once.
  bool Turn();
  // The request has come to its end here: frees its cells and tells its clients.
  void Finish(const RecordPtr& record, FinishReason reason, absl::Status error = absl::OkStatus())
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_.mu);
  // Closes the sequence and gives the cells back. Does nothing the second time.
  void FreeCells(RequestRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_.mu);

 private:
  void ApplyCancels() ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_.mu);
  void AdmitQueued() ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_.mu);
  int PrefillChunk() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_.mu);
  void ExpireTimers(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_.mu);
  void EvictEnded(std::vector<RecordPtr> ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_.mu);

  // What readiness is judged by.
  void NoteProgress(bool stepped, absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_.mu);

  // Runs the batch; when it fails, each request alone, so that only those that cannot go on end. True: something came
  // of it, if only an error; false when it was interrupted and is to be made again.
  bool Execute(std::span<const BatchEntry> batch);
  void Apply(std::span<const BatchEntry> batch, std::span<const Sampled> sampled, absl::Duration took);
  void Record(std::span<const BatchEntry> batch, absl::Duration took) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_.mu);
  void AppendToken(const RecordPtr& record, const Sampled& sampled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_.mu);
  FinishReason StopReason(const RequestRecord& record, const Sampled& sampled) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(s_.mu);

  ManagerState& s_;
  Engine& engine_;
  int64_t steps_ = 0;
  int64_t pool_changes_ = 0;  // as last seen
  absl::Duration last_turn_end_ = absl::ZeroDuration();
  absl::Duration last_expiry_ = -absl::InfiniteDuration();
};

// Nothing of the request, nor of what it displaced, holds cells.
bool Freed(const RequestRecord& record);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_REQUEST_RUNNER_H_

// Whether a worker can serve: not while its decode loop or its pool of cells is stuck. Turns back by itself.
#ifndef RISKKV_SERVICES_WORKER_CORE_READINESS_H_
#define RISKKV_SERVICES_WORKER_CORE_READINESS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/obs/log.h"
#include "services/worker/core/request_manager.h"

namespace riskkv::worker {

struct ReadinessOptions {
  // Longer than the longest step: a chunk of a prompt on a busy machine.
  absl::Duration stuck_after = absl::Seconds(30);
};

// Thread-safe; `manager` must outlive it. By the manager's clock.
class Readiness {
 public:
  Readiness(ReadinessOptions options, const RequestManager* manager) : options_(options), manager_(*manager) {}
  // Empty: it serves. Else what is stuck, and for how long.
  std::string WhyNot() const;

 private:
  const ReadinessOptions options_;
  const RequestManager& manager_;
};

// Looks every `every`, and tells `set_serving` of each change (and of the first state) on a thread of its own.
class ReadinessWatch {
 public:
  ReadinessWatch(const Readiness* readiness, absl::Duration every, std::function<void(bool)> set_serving, Logger log);
  ~ReadinessWatch() { Stop(); }
  // Nothing is told any more. Idempotent.
  void Stop();
  // How often it stopped serving.
  int64_t times_stuck() const { return times_stuck_; }

 private:
  void Run();

  const Readiness* const readiness_;
  const absl::Duration every_;
  const std::function<void(bool)> set_serving_;
  const Logger log_;
  std::atomic<int64_t> times_stuck_{0};
  Mutex mu_;
  CondVar wake_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_READINESS_H_

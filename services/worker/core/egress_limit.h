// How fast a worker may send to other workers.
#ifndef RISKKV_SERVICES_WORKER_CORE_EGRESS_LIMIT_H_
#define RISKKV_SERVICES_WORKER_CORE_EGRESS_LIMIT_H_

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace riskkv::worker {

// A link of so many bytes a second that all senders share, first come first served: whoever sends waits until
// his bytes would have passed. No burst is saved up while nobody sends. Thread-safe; `clock` outlives it.
class EgressLimit {
 public:
  // 0 or less: no limit. `sleep` waits for a duration, on the caller's thread.
  EgressLimit(double bytes_per_second, const Clock* clock, std::function<void(absl::Duration)> sleep);

  void Take(int64_t bytes);
  double bytes_per_second() const { return rate_; }

 private:
  const double rate_;
  const Clock* const clock_;
  const std::function<void(absl::Duration)> sleep_;
  Mutex mu_;
  absl::Duration free_at_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_EGRESS_LIMIT_H_

#include "services/worker/core/egress_limit.h"

#include <algorithm>
#include <utility>

namespace riskkv::worker {

EgressLimit::EgressLimit(double bytes_per_second, const Clock* clock,
                         std::function<void(absl::Duration)> sleep)
    : rate_(bytes_per_second), clock_(clock), sleep_(std::move(sleep)) {}

void EgressLimit::Take(int64_t bytes) {
  if (rate_ <= 0 || bytes <= 0) return;
  absl::Duration wait;
  {
    MutexLock lock(mu_);
    const absl::Duration now = clock_->Monotonic();
    free_at_ = std::max(free_at_, now) + absl::Seconds(static_cast<double>(bytes) / rate_);
    wait = free_at_ - now;
  }
  sleep_(wait);
}

}  // namespace riskkv::worker

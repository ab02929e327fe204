#include "common/base/clock.h"

#include <chrono>

namespace riskkv {

absl::Duration RealClock::Monotonic() const {
  return absl::FromChrono(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace riskkv

// Time, passed in. Deadlines and leases use Monotonic(); Now() is only for people and records.
#ifndef RISKKV_COMMON_BASE_CLOCK_H_
#define RISKKV_COMMON_BASE_CLOCK_H_

#include <atomic>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace riskkv {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
  // Time since an arbitrary start; never goes back.
  virtual absl::Duration Monotonic() const = 0;
};

// Thread-safe.
class RealClock : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
  absl::Duration Monotonic() const override;
};

// Thread-safe; moves only when told to.
class FakeClock : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() + Monotonic(); }
  absl::Duration Monotonic() const override { return absl::Nanoseconds(nanos_.load()); }
  void Advance(absl::Duration d) { nanos_ += absl::ToInt64Nanoseconds(d); }

 private:
  std::atomic<int64_t> nanos_{0};
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_BASE_CLOCK_H_

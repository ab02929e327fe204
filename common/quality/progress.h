// How a long calculation says where it is, and hears that it should stop.
#ifndef RISKKV_COMMON_QUALITY_PROGRESS_H_
#define RISKKV_COMMON_QUALITY_PROGRESS_H_

#include <string>

#include "absl/status/status.h"

namespace riskkv {

// Called from one thread.
class Progress {
 public:
  virtual ~Progress() = default;
  // Steps of the whole calculation, as far as they are known; may be called again.
  virtual void Plan(int steps) {}
  virtual void Begin(const std::string& phase, int steps) {}
  virtual void Step() {}
  // A step that needed no work, since its result was kept: it counts as done, not for the rate.
  virtual void Skip() { Step(); }
  virtual bool cancelled() const { return false; }
  // CANCELLED once cancelled().
  absl::Status Check() const { return cancelled() ? absl::CancelledError("interrupted") : absl::OkStatus(); }
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_PROGRESS_H_

// Ctrl-C while a calibration runs: the engine is told to stop, temporary files are removed on the way out,
// exit code 130.
#ifndef RISKKV_SERVICES_CALIBRATE_INTERRUPT_H_
#define RISKKV_SERVICES_CALIBRATE_INTERRUPT_H_

#include <atomic>
#include <thread>

#include "common/engine/engine.h"

namespace riskkv::calibrate {

// Catches SIGINT and SIGTERM while it lives (one at a time in a process) and then interrupts the engine until
// it listens.
class InterruptGuard {
 public:
  explicit InterruptGuard(Engine& engine);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static bool Interrupted();

 private:
  void Watch();

  Engine& engine_;
  std::atomic<bool> done_{false};
  void (*previous_int_)(int) = nullptr;
  void (*previous_term_)(int) = nullptr;
  std::thread watcher_;
};

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_INTERRUPT_H_

// Ctrl-C and termination as something that can be waited for.
#ifndef RISKKV_SERVICES_CLI_INTERRUPT_H_
#define RISKKV_SERVICES_CLI_INTERRUPT_H_

#include <atomic>
#include <functional>
#include <thread>

namespace riskkv::cli {

// From the first call on SIGINT, SIGTERM and SIGHUP only set a flag; a second one ends the process at once.
void CatchInterrupts();
bool Interrupted();

// Calls `action` once, on a thread of its own, when an interrupt comes during its life.
class OnInterrupt {
 public:
  explicit OnInterrupt(std::function<void()> action);
  ~OnInterrupt();

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_INTERRUPT_H_

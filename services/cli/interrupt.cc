#include "services/cli/interrupt.h"

#include <csignal>
#include <mutex>
#include <utility>

#include "absl/time/clock.h"

namespace riskkv::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;

extern "C" void HandleInterrupt(int signal) {
  if (interrupted != 0) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  interrupted = 1;
}

}  // namespace

void CatchInterrupts() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, HandleInterrupt);
  });
}

bool Interrupted() { return interrupted != 0; }

OnInterrupt::OnInterrupt(std::function<void()> action)
    : thread_([this, action = std::move(action)] {
        while (!done_) {
          if (Interrupted()) {
            action();
            return;
          }
          absl::SleepFor(absl::Milliseconds(20));
        }
      }) {
  CatchInterrupts();
}

OnInterrupt::~OnInterrupt() {
  done_ = true;
  thread_.join();
}

}  // namespace riskkv::cli

#include "services/calibrate/interrupt.h"

#include <chrono>
#include <csignal>

namespace riskkv::calibrate {
namespace {

// All a signal handler may touch.
std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void OnSignal(int) { g_interrupted = true; }

}  // namespace

InterruptGuard::InterruptGuard(Engine& engine) : engine_(engine) {
  g_interrupted = false;
  previous_int_ = std::signal(SIGINT, OnSignal);
  previous_term_ = std::signal(SIGTERM, OnSignal);
  watcher_ = std::thread([this] { Watch(); });
}

InterruptGuard::~InterruptGuard() {
  done_ = true;
  watcher_.join();
  std::signal(SIGINT, previous_int_);
  std::signal(SIGTERM, previous_term_);
}

bool InterruptGuard::Interrupted() { return g_interrupted; }

void InterruptGuard::Watch() {
  while (!done_) {
    if (g_interrupted) engine_.Interrupt();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace riskkv::calibrate

#include "services/worker/core/decode_loop.h"

#include <chrono>

namespace riskkv::worker {

DecodeLoop::~DecodeLoop() {
  Stop();
  MutexLock lock(mu_);
  while (callers_ > 0) done_.Wait(mu_);
}

void DecodeLoop::Start() {
  MutexLock join(join_mu_);
  MutexLock lock(mu_);
  thread_ = std::thread([this] { Loop(); });
  loop_id_ = thread_.get_id();
}

void DecodeLoop::Stop() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    wake_.NotifyAll();
  }
  MutexLock join(join_mu_);
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mu_);
  Refuse();
}

void DecodeLoop::Wake() {
  MutexLock lock(mu_);
  woken_ = true;
  wake_.NotifyAll();
}

void DecodeLoop::Refuse() {
  stopped_ = true;
  for (Pending* p : pending_) p->done = p->refused = true;
  pending_.clear();
  done_.NotifyAll();
}

absl::Status DecodeLoop::Run(std::function<void()> call) {
  Pending pending{std::move(call)};
  {
    MutexLock lock(mu_);
    if (std::this_thread::get_id() != loop_id_) {
      ++callers_;
      if (stopped_) {
        pending.refused = true;
      } else {
        pending_.push_back(&pending);
        wake_.NotifyAll();
        while (!pending.done) done_.Wait(mu_);
      }
      // The last thing this thread does here: the destructor waits for it.
      if (--callers_ == 0) done_.NotifyAll();
      if (!pending.refused) return absl::OkStatus();
      return MakeError(absl::StatusCode::kUnavailable, "NOT_READY", "the worker is stopping");
    }
  }
  pending.call();
  return absl::OkStatus();
}

void DecodeLoop::RunPending() {
  const auto begin = std::chrono::steady_clock::now();
  const auto budget = absl::ToChronoNanoseconds(kCallBudget);
  do {
    Pending* next = nullptr;
    {
      MutexLock lock(mu_);
      if (stop_ || pending_.empty()) return;
      next = pending_.front();
      pending_.pop_front();
    }
    next->call();
    MutexLock lock(mu_);
    next->done = true;  // `next` is gone once its caller sees this
    done_.NotifyAll();
  } while (std::chrono::steady_clock::now() - begin < budget);
}

void DecodeLoop::Loop() {
  for (;;) {
    RunPending();
    const bool more = turn_();
    MutexLock lock(mu_);
    if (!more && !stop_ && !woken_ && pending_.empty()) {
      wake_.WaitFor(mu_, absl::ToChronoNanoseconds(kIdleWait));
    }
    woken_ = false;
    if (stop_) {
      Refuse();
      return;
    }
  }
}

}  // namespace riskkv::worker

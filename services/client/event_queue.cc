#include "services/client/event_queue.h"

#include <chrono>
#include <utility>

namespace riskkv::client {

bool EventQueue::Push(QueuedEvent event) {
  MutexLock lock(mu_);
  while (!closed_ && muted_.count(event.source) == 0 && events_.size() >= capacity_) changed_.Wait(mu_);
  if (closed_ || muted_.count(event.source) > 0) return false;
  events_.push_back(std::move(event));
  changed_.NotifyAll();
  return true;
}

std::optional<QueuedEvent> EventQueue::Pop(absl::Duration timeout) {
  MutexLock lock(mu_);
  const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  while (!closed_ && events_.empty()) {
    auto left = end - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return std::nullopt;
    changed_.WaitFor(mu_, left);
  }
  if (closed_) return std::nullopt;
  QueuedEvent event = std::move(events_.front());
  events_.pop_front();
  changed_.NotifyAll();
  return event;
}

void EventQueue::Mute(SourceId source) {
  MutexLock lock(mu_);
  muted_.insert(source);
  std::erase_if(events_, [source](const QueuedEvent& e) { return e.source == source; });
  changed_.NotifyAll();
}

void EventQueue::Close() {
  MutexLock lock(mu_);
  closed_ = true;
  changed_.NotifyAll();
}

bool EventQueue::closed() const {
  MutexLock lock(mu_);
  return closed_;
}

}  // namespace riskkv::client

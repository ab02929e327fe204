#include "services/coordinator/core/move_pump.h"

#include <utility>

namespace riskkv::coordinator {

MovePump::MovePump(std::unique_ptr<MoveStream> stream, Job* job)
    : stream_(std::move(stream)), job_(job), thread_([this] { Loop(); }) {}

MovePump::~MovePump() {
  stream_->Cancel();
  thread_.join();
}

void MovePump::Loop() {
  while (std::unique_ptr<MoveEvent> event = stream_->Next()) {
    {
      MutexLock lock(mu_);
      events_.push_back(std::move(event));
    }
    job_->Wake();
  }
  absl::Status status = stream_->Finish();
  {
    MutexLock lock(mu_);
    ended_ = std::move(status);
  }
  job_->Wake();
}

std::unique_ptr<MoveEvent> MovePump::Pop() {
  MutexLock lock(mu_);
  if (events_.empty()) return nullptr;
  std::unique_ptr<MoveEvent> event = std::move(events_.front());
  events_.pop_front();
  return event;
}

std::optional<absl::Status> MovePump::Ended() {
  MutexLock lock(mu_);
  return events_.empty() ? ended_ : std::nullopt;
}

}  // namespace riskkv::coordinator

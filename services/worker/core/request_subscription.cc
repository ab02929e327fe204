#include "services/worker/core/request_subscription.h"

#include <chrono>

namespace riskkv::worker {

std::unique_ptr<Subscription> RequestSubscription::Open(std::shared_ptr<ManagerState> state, RecordPtr record,
                                                        int64_t next_index) {
  const uint64_t number = ++record->attachment;
  record->attached = true;
  record->changed.NotifyAll();  // the superseded one ends
  return std::unique_ptr<Subscription>(new RequestSubscription(std::move(state), std::move(record), next_index, number));
}

RequestSubscription::~RequestSubscription() {
  MutexLock lock(s_->mu);
  if (record_->attachment != number_) return;
  record_->attached = false;
  record_->detached_since = s_->clock->Monotonic();
}

RequestEvent RequestSubscription::Last(RequestEvent event) {
  done_ = true;
  return event;
}

std::optional<absl::StatusOr<RequestEvent>> RequestSubscription::Ready() {
  const RequestRecord& r = *record_;
  if (done_) return absl::OutOfRangeError("the stream has ended");
  if (r.attachment != number_) return Last(SupersededEvent{});
  if (r.dropped) {
    done_ = true;
    return UnknownRequest(r.id);
  }
  // At once: neither a long step, nor a backlog, nor a move whose decision is out of reach may hold it up.
  if (r.cancel_requested && !(late_ && r.finished())) return Last(EndEvent{FinishReason::kCancelled, absl::OkStatus(), next_, r.epoch, ""});
  if (r.deliver && next_ < static_cast<int64_t>(r.log.size())) return r.log[static_cast<std::size_t>(next_++)];
  if (r.state == RequestState::kMoved) return Last(MovedEvent{r.moved_to});
  // Also of a request that may not be delivered yet, once it never will be.
  if (r.finished() && (r.deliver || s_->stopping)) {
    return Last(EndEvent{r.finish, r.error, static_cast<int64_t>(r.log.size()), r.epoch, r.tail_text});
  }
  if (r.candidate && announcements_seen_ != r.announcements) {
    announcements_seen_ = r.announcements;
    return MovingEvent{*r.candidate};
  }
  return std::nullopt;
}

absl::StatusOr<RequestEvent> RequestSubscription::Next(absl::Duration timeout) {
  const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  MutexLock lock(s_->mu);
  for (;;) {
    if (auto ready = Ready()) return *std::move(ready);
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0)) return absl::DeadlineExceededError("no event in time");
    record_->changed.WaitFor(s_->mu, left);
  }
}

}  // namespace riskkv::worker

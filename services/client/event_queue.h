// Events of all sources of a request on their way to the one thread that merges them.
#ifndef RISKKV_SERVICES_CLIENT_EVENT_QUEUE_H_
#define RISKKV_SERVICES_CLIENT_EVENT_QUEUE_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <set>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "services/client/core/stream_merger.h"

namespace riskkv::client {

struct QueuedEvent {
  SourceId source = 0;
  Event event;
  absl::Duration received;  // client's monotonic clock, taken when it came off the wire
};

// Thread-safe. Bounded: a slow reader holds the workers' streams up (gRPC flow control) instead of filling
// memory.
class EventQueue {
 public:
  explicit EventQueue(std::size_t capacity = 1024) : capacity_(capacity) {}

  // False when the queue was closed or the source muted.
  bool Push(QueuedEvent event);
  // Nothing when `timeout` passed first or the queue is closed.
  std::optional<QueuedEvent> Pop(absl::Duration timeout);
  // Drops what is queued of a source and refuses what it still pushes.
  void Mute(SourceId source);
  // Wakes everybody up; Push and Pop return at once from now on.
  void Close();
  bool closed() const;

 private:
  const std::size_t capacity_;
  mutable Mutex mu_;
  CondVar changed_;
  std::deque<QueuedEvent> events_ ABSL_GUARDED_BY(mu_);
  std::set<SourceId> muted_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace riskkv::client

#endif  // RISKKV_SERVICES_CLIENT_EVENT_QUEUE_H_

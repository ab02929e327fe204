#include "services/client/stream_source.h"

#include <utility>

#include "common/net/channel.h"
#include "common/net/status.h"
#include "services/client/convert.h"

namespace riskkv::client {

StreamSource::StreamSource(SourceId id, const std::string& address, Starter start, EventQueue* queue,
                           const Clock* clock)
    : id_(id),
      address_(address),
      queue_(queue),
      clock_(clock),
      stub_(v1::Generation::NewStub(CreateChannel(address, ChannelKind::kControl))),
      thread_([this, start = std::move(start)] { Run(start); }) {}

StreamSource::~StreamSource() {
  Cancel();
  thread_.join();
}

void StreamSource::Run(const Starter& start) {
  Reader reader = start(*stub_, &context_);
  v1::GenerateEvent message;
  while (reader->Read(&message)) {
    absl::Duration received = clock_->Monotonic();
    std::optional<Event> event = FromProto(message);
    if (!event) continue;
    if (!queue_->Push({id_, std::move(*event), received})) {
      context_.TryCancel();
      break;
    }
  }
  // Finish wants the stream read to its end.
  while (reader->Read(&message)) {
  }
  absl::Status status = FromGrpc(reader->Finish());
  queue_->Push({id_, BrokenEvent{std::move(status)}, clock_->Monotonic()});
}

}  // namespace riskkv::client

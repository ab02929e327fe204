// One stream of one worker: a thread that reads it into the queue.
#ifndef RISKKV_SERVICES_CLIENT_STREAM_SOURCE_H_
#define RISKKV_SERVICES_CLIENT_STREAM_SOURCE_H_

#include <functional>
#include <memory>
#include <thread>

#include "common/base/clock.h"
#include "grpcpp/grpcpp.h"
#include "riskkv/v1/generation.grpc.pb.h"
#include "services/client/event_queue.h"

namespace riskkv::client {

class StreamSource {
 public:
  using Reader = std::unique_ptr<grpc::ClientReader<v1::GenerateEvent>>;
  // Starts the call on the given stub.
  using Starter = std::function<Reader(v1::Generation::Stub&, grpc::ClientContext*)>;

  // The last event pushed is BrokenEvent, whatever the stream's end was. `queue` and `clock` must outlive it.
  StreamSource(SourceId id, const std::string& address, Starter start, EventQueue* queue, const Clock* clock);
  // Cancels the call and joins the thread. The queue must be closed, this source muted, or the queue read
  // meanwhile.
  ~StreamSource();
  // Ends the call soon; does not wait.
  void Cancel() { context_.TryCancel(); }
  const std::string& address() const { return address_; }

 private:
  void Run(const Starter& start);

  const SourceId id_;
  const std::string address_;
  EventQueue* const queue_;
  const Clock* const clock_;
  std::unique_ptr<v1::Generation::Stub> stub_;
  grpc::ClientContext context_;
  std::thread thread_;
};

}  // namespace riskkv::client

#endif  // RISKKV_SERVICES_CLIENT_STREAM_SOURCE_H_

// One unary call with a deadline, its error naming the peer and the call.
#ifndef RISKKV_SERVICES_CLI_RPC_H_
#define RISKKV_SERVICES_CLI_RPC_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/net/channel.h"
#include "common/net/status.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"

namespace riskkv::cli {

inline constexpr absl::Duration kCallTimeout = absl::Seconds(10);

// A stub of `Service` that remembers whom it calls.
template <typename Service>
class Peer {
 public:
  // `role` is "coordinator" or "worker".
  Peer(std::string role, std::string address)
      : name_(fmt::format("{} {}", role, address)),
        stub_(Service::NewStub(CreateChannel(address, ChannelKind::kControl))) {}

  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Call(grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                   Reply*),
                             const Request& request, absl::Duration timeout = kCallTimeout) const {
    grpc::ClientContext context;
    SetTimeout(context, timeout);
    Reply reply;
    RETURN_IF_ERROR(FromGrpc((stub_.get()->*method)(&context, request, &reply), name_));
    return reply;
  }

 private:
  std::string name_;
  std::unique_ptr<typename Service::Stub> stub_;
};

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_RPC_H_

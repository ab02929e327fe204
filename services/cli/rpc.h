// One unary call with a deadline, its error naming the peer and the call.
#ifndef RISKKV_SERVICES_CLI_RPC_H_
#define RISKKV_SERVICES_CLI_RPC_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "common/net/channel.h"
#include "common/net/leader_channel.h"
#include "common/net/status.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"

namespace riskkv::cli {

inline constexpr absl::Duration kCallTimeout = absl::Seconds(10);

// Whom to call with stubs of `Service`. Of several coordinators the call goes on to the one that leads.
template <typename Service>
class Peer {
 public:
  // `role` is "coordinator" or "worker"; `address` may be several coordinators', comma-separated.
  Peer(std::string role, const std::string& address)
      : role_(std::move(role)), leader_(std::make_unique<LeaderChannel>(SplitAddresses(address))) {}

  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Call(grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                   Reply*),
                             const Request& request, absl::Duration timeout = kCallTimeout) const {
    const absl::Time until = absl::Now() + timeout;
    for (int tries = 1;; ++tries) {
      grpc::ClientContext context;
      SetTimeout(context, until - absl::Now());
      Reply reply;
      const LeaderChannel::Choice to = leader_->Current();
      auto stub = Service::NewStub(to.channel);
      const absl::Status status = leader_->Learn(to.address, FromGrpc((stub.get()->*method)(&context, request, &reply)));
      if (status.ok()) return reply;
      if (tries == kMostTries || !leader_->ElsewhereMayDo(status)) return Annotate(status, fmt::format("{} {}", role_, to.address));
    }
  }

 private:
  static constexpr int kMostTries = 5;

  std::string role_;
  std::unique_ptr<LeaderChannel> leader_;
};

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_RPC_H_

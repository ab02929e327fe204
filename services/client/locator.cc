#include "services/client/locator.h"

#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/net/channel.h"
#include "common/net/status.h"
#include "fmt/format.h"
#include "riskkv/v1/coordinator.grpc.pb.h"

namespace riskkv::client {
namespace {

constexpr int kMostLeaders = 5;  // that one call may be sent on to

}  // namespace

Locator::Locator(const std::string& coordinator_addresses)
    : leader_(std::make_unique<LeaderChannel>(SplitAddresses(coordinator_addresses))) {}

absl::StatusOr<Target> Locator::Locate(const std::string& request_id, absl::Duration timeout) const {
  const absl::Time until = absl::Now() + timeout;
  v1::LocateRequest request;
  request.set_request_id(request_id);
  for (int tries = 1;; ++tries) {
    grpc::ClientContext context;
    SetTimeout(context, until - absl::Now());
    v1::LocateReply reply;
    const LeaderChannel::Choice to = leader_->Current();
    const absl::Status status =
        leader_->Learn(to.address, FromGrpc(v1::Coordinator::NewStub(to.channel)->Locate(&context, request, &reply),
                                            fmt::format("coordinator {}: Locate", to.address)));
    if (status.ok()) return Target{reply.owner(), reply.address(), reply.epoch(), reply.start_index()};
    if (tries == kMostLeaders || !leader_->ElsewhereMayDo(status)) return status;
  }
}

}  // namespace riskkv::client

#include "services/worker/rpc/cancel_client.h"

#include "common/net/channel.h"
#include "common/net/status.h"
#include "riskkv/v1/generation.grpc.pb.h"

namespace riskkv::worker {
namespace {

constexpr absl::Duration kTellOwner = absl::Seconds(5);

}  // namespace

absl::Status CancelClient::TellCoordinator(const std::string& request_id, Cancellation* cancel) {
  return coordinator_ == nullptr ? absl::OkStatus() : coordinator_->CancelRequest(request_id, cancel);
}

absl::Status CancelClient::TellOwner(const std::string& address, const std::string& request_id, Cancellation* cancel) {
  grpc::ClientContext context;
  SetTimeout(context, kTellOwner);
  Cancellation::Hook hook(cancel, [&] { context.TryCancel(); });
  v1::CancelRequest request;
  request.set_request_id(request_id);
  v1::CancelReply reply;
  auto stub = v1::Generation::NewStub(channels_->Get(address, ChannelKind::kControl));
  return FromGrpc(stub->Cancel(&context, request, &reply), address);
}

}  // namespace riskkv::worker

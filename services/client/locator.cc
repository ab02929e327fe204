#include "services/client/locator.h"

#include "common/net/channel.h"
#include "common/net/status.h"
#include "fmt/format.h"

namespace riskkv::client {

Locator::Locator(const std::string& coordinator_address)
    : address_(coordinator_address),
      stub_(v1::Coordinator::NewStub(CreateChannel(coordinator_address, ChannelKind::kControl))) {}

absl::StatusOr<Target> Locator::Locate(const std::string& request_id, absl::Duration timeout) const {
  grpc::ClientContext context;
  SetTimeout(context, timeout);
  v1::LocateRequest request;
  request.set_request_id(request_id);
  v1::LocateReply reply;
  RETURN_IF_ERROR(
      FromGrpc(stub_->Locate(&context, request, &reply), fmt::format("coordinator {}: Locate", address_)));
  return Target{reply.owner(), reply.address(), reply.epoch(), reply.start_index()};
}

}  // namespace riskkv::client

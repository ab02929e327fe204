#include "services/cli/health_check.h"

#include <future>

#include "common/net/channel.h"
#include "common/net/status.h"
#include "fmt/format.h"
#include "grpc/health/v1/health.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace riskkv::cli {

namespace health = ::grpc::health::v1;

absl::StatusOr<std::string> CheckHealth(const std::string& address, const std::string& service,
                                        absl::Duration timeout) {
  grpc::TemplatedGenericStub<health::HealthCheckRequest, health::HealthCheckResponse> stub(
      CreateChannel(address, ChannelKind::kControl));
  grpc::ClientContext context;
  SetTimeout(context, timeout);
  health::HealthCheckRequest request;
  request.set_service(service);
  health::HealthCheckResponse response;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&done](grpc::Status status) { done.set_value(std::move(status)); });
  RETURN_IF_ERROR(FromGrpc(done.get_future().get(), address));
  return health::HealthCheckResponse::ServingStatus_Name(response.status());
}

}  // namespace riskkv::cli

#include "common/net/server.h"

#include <chrono>
#include <mutex>

#include "common/base/status.h"
#include "fmt/format.h"
#include "grpc/health/v1/health.pb.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"

namespace riskkv {

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "[::1]" || host.rfind("127.", 0) == 0 || host.rfind("unix:", 0) == 0;
}

absl::StatusOr<std::string> HostOf(const std::string& address) {
  auto colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
                     fmt::format("address '{}' is not host:port", address));
  }
  return address.substr(0, colon);
}

absl::Status CheckListen(const std::string& listen, bool insecure) {
  ASSIGN_OR_RETURN(const std::string host, HostOf(listen));
  if (insecure || IsLoopback(host)) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, "BAD_ARGUMENT",
                   fmt::format("refusing to listen on {} in plain text: only loopback is allowed without --insecure", listen));
}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckListen(options.listen, options.insecure));
  ASSIGN_OR_RETURN(const std::string host, HostOf(options.listen));
  static std::once_flag plugins;
  std::call_once(plugins, [] {
    grpc::EnableDefaultHealthCheckService(true);
    // A reference, or the linker drops the health descriptor from the static library and reflection cannot show it.
    grpc::health::v1::HealthCheckRequest::descriptor();
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
  std::unique_ptr<RpcServer> result(new RpcServer());
  result->host_ = host == "0.0.0.0" || host == "[::]" ? "127.0.0.1" : host;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &result->port_);
  // Clients ping every 2 s while calls run; the default of one per 300 s would answer with GOAWAY.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 2000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  result->server_ = builder.BuildAndStart();
  if (!result->server_ || result->port_ == 0) {
    return MakeError(absl::StatusCode::kUnavailable, "NOT_READY",
                     fmt::format("cannot listen on {}: the address is taken or not of this machine", options.listen));
  }
  return result;
}

RpcServer::~RpcServer() { Shutdown(absl::Seconds(1)); }

void RpcServer::SetServing(bool serving) {
  if (auto* health = server_->GetHealthCheckService()) health->SetServingStatus(serving);
}

void RpcServer::SetServing(const std::string& service, bool serving) {
  if (auto* health = server_->GetHealthCheckService()) health->SetServingStatus(service, serving);
}

void RpcServer::Shutdown(absl::Duration deadline) {
  if (!server_) return;  // Start failed
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoNanoseconds(deadline));
  server_->Wait();
}

}  // namespace riskkv

// A gRPC server with what every riskkv process serves beside its own services: health (in the descriptor pool, so that
// grpcurl can call it) and reflection.
#ifndef RISKKV_COMMON_NET_SERVER_H_
#define RISKKV_COMMON_NET_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace riskkv {

struct ServerOptions {
  std::string listen = "127.0.0.1:0";  // host:port; port 0: any free one
  bool insecure = false;               // needed to listen beyond loopback without mTLS
  std::vector<grpc::Service*> services;  // not owned; must outlive the server
};

// Thread-safe.
class RpcServer {
 public:
  // FAILED_PRECONDITION when `listen` is not loopback and `insecure` is not set; UNAVAILABLE when the port is taken.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const ServerOptions& options);
  ~RpcServer();
  int port() const { return port_; }
  // host:port it can be reached at from this machine.
  std::string address() const { return host_ + ":" + std::to_string(port_); }
  // Health of the whole process and of each service.
  void SetServing(bool serving);
  // Of one service, by its full name.
  void SetServing(const std::string& service, bool serving);
  // Ends running calls at the deadline; streams that do not end are cancelled.
  void Shutdown(absl::Duration deadline);

 private:
  RpcServer() = default;
  std::string host_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Whether a server may listen there in plain text: INVALID_ARGUMENT when `listen` is not host:port, FAILED_PRECONDITION when it is beyond
// loopback and `insecure` is not set.
absl::Status CheckListen(const std::string& listen, bool insecure);
bool IsLoopback(const std::string& host);
// "[::1]:80" -> "[::1]", "a:80" -> "a". INVALID_ARGUMENT without a port.
absl::StatusOr<std::string> HostOf(const std::string& address);

}  // namespace riskkv

#endif  // RISKKV_COMMON_NET_SERVER_H_

// The destination of a move, over gRPC: control calls and frames go on separate connections.
#ifndef RISKKV_SERVICES_WORKER_RPC_PEER_CLIENT_H_
#define RISKKV_SERVICES_WORKER_RPC_PEER_CLIENT_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/net/channel.h"
#include "grpcpp/grpcpp.h"
#include "services/worker/core/egress_limit.h"
#include "services/worker/core/move_peers.h"

namespace riskkv::worker {

// Channels by address, kept: a second move to the same peer finds the connections open; and how fast what goes over them may be sent.
// Thread-safe.
class PeerChannels {
 public:
  // `limit` outlives it.
  explicit PeerChannels(EgressLimit* limit) : limit_(limit) {}
  std::shared_ptr<grpc::Channel> Get(const std::string& address, ChannelKind kind);
  EgressLimit& limit() { return *limit_; }

 private:
  EgressLimit* const limit_;
  Mutex mu_;
  std::map<std::pair<std::string, ChannelKind>, std::shared_ptr<grpc::Channel>> channels_ ABSL_GUARDED_BY(mu_);
};

// Never fails: an address that does not answer is found out by the first call (PEER_UNREACHABLE). `channels` must outlive it.
std::unique_ptr<DestinationPeer> ConnectPeer(PeerChannels* channels, const std::string& address);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_RPC_PEER_CLIENT_H_

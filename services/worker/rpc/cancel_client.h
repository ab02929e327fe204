// Whom a cancelled request concerns beside this worker, over gRPC.
#ifndef RISKKV_SERVICES_WORKER_RPC_CANCEL_CLIENT_H_
#define RISKKV_SERVICES_WORKER_RPC_CANCEL_CLIENT_H_

#include <string>

#include "services/worker/core/cancel_relay.h"
#include "services/worker/rpc/coordinator_client.h"
#include "services/worker/rpc/peer_client.h"

namespace riskkv::worker {

// Both must outlive it; `coordinator` may be null.
class CancelClient final : public CancelPeers {
 public:
  CancelClient(CoordinatorClient* coordinator, PeerChannels* channels) : coordinator_(coordinator), channels_(channels) {}
  absl::Status TellCoordinator(const std::string& request_id, Cancellation* cancel) override;
  absl::Status TellOwner(const std::string& address, const std::string& request_id, Cancellation* cancel) override;

 private:
  CoordinatorClient* const coordinator_;
  PeerChannels* const channels_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_RPC_CANCEL_CLIENT_H_

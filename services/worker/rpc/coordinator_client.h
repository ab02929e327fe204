// The coordinator's Registry as a worker uses it: decisions and reports. Registration is in registration.h.
#ifndef RISKKV_SERVICES_WORKER_RPC_COORDINATOR_CLIENT_H_
#define RISKKV_SERVICES_WORKER_RPC_COORDINATOR_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "common/net/leader_channel.h"
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "services/worker/core/move_outgoing.h"
#include "services/worker/core/move_peers.h"

namespace riskkv::worker {

// Thread-safe. Every call has a deadline of its own; an error is never a decision. Of several coordinators the one that leads is asked: a
// call that met another one fails, and the next goes to the leader.
class CoordinatorClient final : public DecisionAuthority {
 public:
  CoordinatorClient(std::string worker_id, std::vector<std::string> coordinators);

  absl::StatusOr<DecisionInfo> Prepared(const Fence& fence, int64_t start_index, const PreparedStats& stats,
                                        Cancellation* cancel) override;
  absl::StatusOr<DecisionInfo> Resumed(const Fence& fence, uint64_t new_epoch, Cancellation* cancel) override;
  absl::StatusOr<DecisionInfo> Resolve(const Fence& fence, bool give_up, bool destination, Cancellation* cancel) override;

  // A client cancelled a request that is in the hands of a move.
  absl::Status CancelRequest(const std::string& request_id, Cancellation* cancel);
  // Best effort: an estimate that is lost costs nothing.
  void ReportTransfer(const TransferResult& result);
  LeaderChannel& leader() { return leader_; }

 private:
  const std::string worker_id_;
  LeaderChannel leader_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_RPC_COORDINATOR_CLIENT_H_

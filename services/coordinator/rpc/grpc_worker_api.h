// WorkerApi over gRPC.
#ifndef RISKKV_SERVICES_COORDINATOR_RPC_GRPC_WORKER_API_H_
#define RISKKV_SERVICES_COORDINATOR_RPC_GRPC_WORKER_API_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "grpcpp/grpcpp.h"
#include "services/coordinator/core/worker_api.h"

namespace riskkv::coordinator {

// Thread-safe. One control channel an address, kept.
class GrpcWorkerApi : public WorkerApi {
 public:
  absl::StatusOr<RequestInfo> GetRequest(const WorkerName& worker, const std::string& request_id) override;
  absl::Status Reserve(const WorkerName& destination, const ReserveArgs& args, absl::Duration timeout) override;
  std::unique_ptr<MoveStream> StartMove(const WorkerName& source, const StartMoveArgs& args) override;
  absl::StatusOr<bool> Decide(const WorkerName& worker, const DecideArgs& args, absl::Duration timeout) override;
  absl::StatusOr<AttemptInfo> QueryAttempt(const WorkerName& worker, const Fence& fence, absl::Duration timeout) override;
  absl::Status FetchSet(const WorkerName& worker, const std::string& digest, const std::vector<std::string>& peers,
                        absl::Duration timeout) override;
  absl::StatusOr<LinkSample> MeasureLink(const WorkerName& source, const std::string& address, absl::Duration timeout) override;
  absl::Status Adopt(const WorkerName& worker, const AdoptArgs& args, absl::Duration timeout) override;
  absl::StatusOr<WorkerInfo> Describe(const WorkerName& worker, absl::Duration timeout) override;

 private:
  std::shared_ptr<grpc::Channel> Channel(const std::string& address);

  Mutex mu_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_RPC_GRPC_WORKER_API_H_

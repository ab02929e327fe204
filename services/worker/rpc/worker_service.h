// The Worker and Calibration services: what the coordinator and operators call.
#ifndef RISKKV_SERVICES_WORKER_RPC_WORKER_SERVICE_H_
#define RISKKV_SERVICES_WORKER_RPC_WORKER_SERVICE_H_

#include <atomic>
#include <functional>
#include <string>

#include "grpcpp/grpcpp.h"
#include "riskkv/v1/calibration.grpc.pb.h"
#include "riskkv/v1/worker.grpc.pb.h"
#include "services/worker/rpc/describe.h"
#include "services/worker/rpc/peer_client.h"

namespace riskkv::worker {

// Everything outlives the services.
struct WorkerParts {
  RequestManager* manager = nullptr;
  PredictorStore* predictors = nullptr;
  IncomingMoves* incoming = nullptr;
  OutgoingMoves* outgoing = nullptr;
  const Describer* describer = nullptr;
  PeerChannels* channels = nullptr;
  std::function<void()> sets_changed;      // may be empty
  const std::atomic<bool>* stopping = nullptr;
};

// Thread-safe; converts and calls. StartMove holds one of gRPC's threads for the move's length.
class WorkerService final : public v1::Worker::Service {
 public:
  explicit WorkerService(WorkerParts parts) : parts_(std::move(parts)) {}

  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeRequest*, v1::WorkerInfo* reply) override;
  grpc::Status Reserve(grpc::ServerContext*, const v1::ReserveRequest* request, v1::ReserveReply* reply) override;
  grpc::Status StartMove(grpc::ServerContext* context, const v1::StartMoveRequest* request,
                         grpc::ServerWriter<v1::MoveEvent>* writer) override;
  grpc::Status Decide(grpc::ServerContext*, const v1::DecideRequest* request, v1::DecideReply* reply) override;
  grpc::Status QueryAttempt(grpc::ServerContext*, const v1::QueryAttemptRequest* request, v1::AttemptInfo* reply) override;
  grpc::Status FetchSet(grpc::ServerContext*, const v1::FetchSetRequest* request, v1::FetchSetReply* reply) override;
  grpc::Status MeasureLink(grpc::ServerContext*, const v1::MeasureLinkRequest* request, v1::MeasureLinkReply* reply) override;
  grpc::Status Adopt(grpc::ServerContext*, const v1::AdoptRequest* request, v1::AdoptReply*) override;

 private:
  absl::Status AdoptHere(const v1::AdoptRequest& request);

  const WorkerParts parts_;
};

class CalibrationService final : public v1::Calibration::Service {
 public:
  explicit CalibrationService(const PredictorStore* predictors) : predictors_(predictors) {}
  grpc::Status ListPredictorSets(grpc::ServerContext*, const v1::ListPredictorSetsRequest*, v1::ListPredictorSetsReply* reply) override;

 private:
  const PredictorStore* const predictors_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_RPC_WORKER_SERVICE_H_

// The Transfer service: this worker as a destination, as a source of predictor sets, and as a sink for link probes.
#ifndef RISKKV_SERVICES_WORKER_RPC_TRANSFER_SERVICE_H_
#define RISKKV_SERVICES_WORKER_RPC_TRANSFER_SERVICE_H_

#include "grpcpp/grpcpp.h"
#include "riskkv/v1/transfer.grpc.pb.h"
#include "services/worker/core/egress_limit.h"
#include "services/worker/core/move_incoming_table.h"
#include "services/worker/core/predictor_store.h"

namespace riskkv::worker {

// Thread-safe; converts and calls. The pointers must outlive it.
class TransferService final : public v1::Transfer::Service {
 public:
  TransferService(IncomingMoves* incoming, PredictorStore* predictors, EgressLimit* limit)
      : incoming_(incoming), predictors_(predictors), limit_(limit) {}

  grpc::Status DeclareRound(grpc::ServerContext*, const v1::RoundManifest* request, v1::RoundReply* reply) override;
  grpc::Status Push(grpc::ServerContext*, grpc::ServerReader<v1::Frame>* reader, v1::PushReply* reply) override;
  grpc::Status Final(grpc::ServerContext*, const v1::FinalRequest* request, v1::FinalReply* reply) override;
  grpc::Status AbortTransfer(grpc::ServerContext*, const v1::AbortTransferRequest* request, v1::AbortTransferReply* reply) override;
  grpc::Status FetchPredictorSet(grpc::ServerContext*, const v1::FetchPredictorSetRequest* request,
                                 grpc::ServerWriter<v1::PredictorSetChunk>* writer) override;
  grpc::Status Sink(grpc::ServerContext*, grpc::ServerReader<v1::SinkChunk>* reader, v1::SinkReply* reply) override;

 private:
  IncomingMoves* const incoming_;
  PredictorStore* const predictors_;
  EgressLimit* const limit_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_RPC_TRANSFER_SERVICE_H_

// The Generation service: clients of this worker's requests.
#ifndef RISKKV_SERVICES_WORKER_RPC_GENERATION_SERVICE_H_
#define RISKKV_SERVICES_WORKER_RPC_GENERATION_SERVICE_H_

#include <string>

#include "absl/status/status.h"
#include "grpcpp/grpcpp.h"
#include "riskkv/v1/generation.grpc.pb.h"
#include "services/worker/core/cancel_relay.h"
#include "services/worker/core/request_manager.h"

namespace riskkv::worker {

// Thread-safe. A stream holds one of gRPC's threads, which sleeps in Subscription::Next; a client that reads slowly holds its own
// stream only. RequestManager::Stop ends all streams with UNAVAILABLE (NOT_READY).
class GenerationService final : public v1::Generation::Service {
 public:
  // Both must outlive it. Without a relay a cancel is only told to this worker.
  GenerationService(RequestManager* manager, std::string worker_id, CancelRelay* relay = nullptr)
      : manager_(*manager), worker_id_(std::move(worker_id)), relay_(relay) {}

  using Writer = grpc::ServerWriter<v1::GenerateEvent>;
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request, Writer* writer) override;
  grpc::Status Attach(grpc::ServerContext* context, const v1::AttachRequest* request, Writer* writer) override;
  grpc::Status Cancel(grpc::ServerContext* context, const v1::CancelRequest* request, v1::CancelReply* reply) override;
  grpc::Status Acknowledge(grpc::ServerContext* context, const v1::AcknowledgeRequest* request,
                           v1::AcknowledgeReply* reply) override;
  grpc::Status GetRequest(grpc::ServerContext* context, const v1::GetRequestRequest* request, v1::RequestInfo* reply) override;
  grpc::Status ListRequests(grpc::ServerContext* context, const v1::ListRequestsRequest* request,
                            v1::ListRequestsReply* reply) override;

 private:
  absl::Status Admit(const v1::GenerateRequest& request, v1::Started& started);
  // Forwards events until the stream or the request ends. The client's going is no error and detaches only.
  absl::Status Forward(grpc::ServerContext& context, Subscription& stream, Writer& writer);

  RequestManager& manager_;
  const std::string worker_id_;
  CancelRelay* const relay_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_RPC_GENERATION_SERVICE_H_

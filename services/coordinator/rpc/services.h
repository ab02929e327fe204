// The coordinator's gRPC services: each call is converted, answered by the core, converted back. Streams end when their client
// hangs up or the term ends. The gate outlives the services.
#ifndef RISKKV_SERVICES_COORDINATOR_RPC_SERVICES_H_
#define RISKKV_SERVICES_COORDINATOR_RPC_SERVICES_H_

#include <string>

#include "riskkv/v1/calibration.grpc.pb.h"
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "services/coordinator/rpc/service_gate.h"

namespace riskkv::coordinator {

class CoordinatorService : public v1::Coordinator::Service {
 public:
  explicit CoordinatorService(const ServiceGate* gate) : gate_(gate) {}
  grpc::Status Migrate(grpc::ServerContext* context, const v1::MigrateRequest* request,
                       grpc::ServerWriter<v1::MigrationEvent>* writer) override;
  grpc::Status StartMigration(grpc::ServerContext*, const v1::MigrateRequest* request, v1::Migration* reply) override;
  grpc::Status GetMigration(grpc::ServerContext*, const v1::GetMigrationRequest* request, v1::Migration* reply) override;
  grpc::Status ListMigrations(grpc::ServerContext*, const v1::ListMigrationsRequest* request,
                              v1::ListMigrationsReply* reply) override;
  grpc::Status WatchMigration(grpc::ServerContext* context, const v1::WatchMigrationRequest* request,
                              grpc::ServerWriter<v1::MigrationEvent>* writer) override;
  grpc::Status CancelMigration(grpc::ServerContext*, const v1::CancelMigrationRequest* request, v1::Migration* reply) override;
  grpc::Status PlanMigration(grpc::ServerContext*, const v1::MigrateRequest* request, v1::Plan* reply) override;
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*, v1::ListWorkersReply* reply) override;
  grpc::Status Locate(grpc::ServerContext*, const v1::LocateRequest* request, v1::LocateReply* reply) override;
  grpc::Status Recover(grpc::ServerContext*, const v1::RecoverRequest* request, v1::LocateReply* reply) override;

 private:
  static grpc::Status Follow(std::shared_ptr<const ServiceContext> core, std::shared_ptr<Job> job, uint64_t from_seq,
                             grpc::ServerContext* context, grpc::ServerWriter<v1::MigrationEvent>* writer);

  const ServiceGate* const gate_;
};

class RegistryService : public v1::Registry::Service {
 public:
  explicit RegistryService(const ServiceGate* gate) : gate_(gate) {}
  grpc::Status Register(grpc::ServerContext*, const v1::RegisterRequest* request, v1::RegisterReply* reply) override;
  grpc::Status RenewLease(grpc::ServerContext* context,
                          grpc::ServerReaderWriter<v1::LeaseReply, v1::LeaseRenewal>* stream) override;
  grpc::Status Prepared(grpc::ServerContext*, const v1::PreparedRequest* request, v1::DecisionReply* reply) override;
  grpc::Status Resumed(grpc::ServerContext*, const v1::ResumedRequest* request, v1::DecisionReply* reply) override;
  grpc::Status Resolve(grpc::ServerContext*, const v1::ResolveRequest* request, v1::DecisionReply* reply) override;
  grpc::Status ReportTransfer(grpc::ServerContext*, const v1::TransferReport* request, v1::TransferReportReply*) override;
  grpc::Status CancelRequest(grpc::ServerContext*, const v1::CancelOwnedRequest* request, v1::CancelOwnedReply* reply) override;

 private:
  static void Refresh(const ServiceContext& core, const std::string& worker_id);

  const ServiceGate* const gate_;
};

class CalibrationService : public v1::Calibration::Service {
 public:
  explicit CalibrationService(const ServiceGate* gate) : gate_(gate) {}
  grpc::Status ListPredictorSets(grpc::ServerContext*, const v1::ListPredictorSetsRequest*,
                                 v1::ListPredictorSetsReply* reply) override;

 private:
  const ServiceGate* const gate_;
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_RPC_SERVICES_H_

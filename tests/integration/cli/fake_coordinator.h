// A coordinator with written answers and a worker with one listed request, on real servers.
#ifndef RISKKV_TESTS_INTEGRATION_CLI_FAKE_COORDINATOR_H_
#define RISKKV_TESTS_INTEGRATION_CLI_FAKE_COORDINATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/net/server.h"
#include "common/net/status.h"
#include "riskkv/v1/calibration.grpc.pb.h"
#include "riskkv/v1/coordinator.grpc.pb.h"

namespace riskkv::testing {

class FakeCalibration final : public v1::Calibration::Service {
 public:
  v1::ListPredictorSetsReply sets;
  grpc::Status ListPredictorSets(grpc::ServerContext*, const v1::ListPredictorSetsRequest*,
                                 v1::ListPredictorSetsReply* reply) override {
    *reply = sets;
    return grpc::Status::OK;
  }
};

// Set the answers before calls come.
class FakeCoordinator final : public v1::Coordinator::Service {
 public:
  FakeCoordinator() {
    ServerOptions options;
    options.services = {this, &calibration};
    server_ = RpcServer::Start(options).value();
    server_->SetServing(true);
  }
  ~FakeCoordinator() override { server_->Shutdown(absl::ZeroDuration()); }
  std::string address() const { return server_->address(); }

  FakeCalibration calibration;
  v1::ListWorkersReply workers;
  v1::LocateReply owner;
  v1::Plan plan;
  std::vector<v1::MigrationEvent> events;
  absl::Status refuse;            // of Migrate
  size_t break_after = SIZE_MAX;  // Migrate's stream breaks after so many events
  v1::Migration migration;

  v1::MigrateRequest asked() {
    MutexLock lock(mu_);
    return asked_;
  }

  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersReply* reply) override {
    *reply = workers;
    return grpc::Status::OK;
  }
  grpc::Status Locate(grpc::ServerContext*, const v1::LocateRequest* request,
                      v1::LocateReply* reply) override {
    if (request->request_id() != owner.request_id()) {
      return ToGrpc(
          MakeError(absl::StatusCode::kNotFound, "UNKNOWN_REQUEST", "no request " + request->request_id()));
    }
    *reply = owner;
    return grpc::Status::OK;
  }
  grpc::Status PlanMigration(grpc::ServerContext*, const v1::MigrateRequest* request,
                             v1::Plan* reply) override {
    Note(*request);
    *reply = plan;
    return grpc::Status::OK;
  }
  grpc::Status Migrate(grpc::ServerContext*, const v1::MigrateRequest* request,
                       grpc::ServerWriter<v1::MigrationEvent>* writer) override {
    Note(*request);
    if (!refuse.ok()) return ToGrpc(refuse);
    for (size_t i = 0; i < events.size(); ++i) {
      if (i == break_after) return {grpc::StatusCode::UNAVAILABLE, "restarting"};
      writer->Write(events[i]);
    }
    return grpc::Status::OK;
  }
  grpc::Status WatchMigration(grpc::ServerContext*, const v1::WatchMigrationRequest* request,
                              grpc::ServerWriter<v1::MigrationEvent>* writer) override {
    for (const v1::MigrationEvent& e : events) {
      if (e.seq() >= request->from_seq()) writer->Write(e);
    }
    return grpc::Status::OK;
  }
  grpc::Status StartMigration(grpc::ServerContext*, const v1::MigrateRequest* request,
                              v1::Migration* reply) override {
    Note(*request);
    *reply = migration;
    return grpc::Status::OK;
  }
  grpc::Status GetMigration(grpc::ServerContext*, const v1::GetMigrationRequest* request,
                            v1::Migration* reply) override {
    if (request->migration_id() != migration.migration_id()) {
      return ToGrpc(MakeError(absl::StatusCode::kNotFound, "UNKNOWN_MIGRATION",
                              "no migration " + request->migration_id()));
    }
    *reply = migration;
    return grpc::Status::OK;
  }
  grpc::Status ListMigrations(grpc::ServerContext*, const v1::ListMigrationsRequest*,
                              v1::ListMigrationsReply* reply) override {
    *reply->add_migrations() = migration;
    return grpc::Status::OK;
  }
  grpc::Status CancelMigration(grpc::ServerContext*, const v1::CancelMigrationRequest*,
                               v1::Migration*) override {
    return ToGrpc(MakeError(absl::StatusCode::kFailedPrecondition, "ALREADY_COMMITTED",
                            "migration m-1 is committed: b owns r-1"));
  }

 private:
  void Note(const v1::MigrateRequest& request) {
    MutexLock lock(mu_);
    asked_ = request;
  }
  Mutex mu_;
  v1::MigrateRequest asked_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<RpcServer> server_;
};

}  // namespace riskkv::testing

#endif  // RISKKV_TESTS_INTEGRATION_CLI_FAKE_COORDINATOR_H_

// A whole coordinator in one object: store, core, services, server. main.cc and the integration tests start it.
#ifndef RISKKV_SERVICES_COORDINATOR_RPC_COORDINATOR_H_
#define RISKKV_SERVICES_COORDINATOR_RPC_COORDINATOR_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/cost/corrections.h"
#include "common/cost/links.h"
#include "common/net/server.h"
#include "common/store/store.h"
#include "services/coordinator/core/migration_manager.h"
#include "services/coordinator/rpc/grpc_worker_api.h"
#include "services/coordinator/rpc/services.h"

namespace riskkv::coordinator {

struct CoordinatorOptions {
  std::string listen = "127.0.0.1:0";
  std::string store = "memory";  // or sqlite:PATH
  absl::Duration lease = absl::Seconds(10);
  absl::Duration renew = absl::Seconds(3);
  bool insecure = false;
  ManagerOptions manager;
  Logger log;  // null: none
};

// Thread-safe once started.
class CoordinatorProcess {
 public:
  // As OpenStore, MigrationManager::Start and RpcServer::Start; INVALID_ARGUMENT for durations that make no sense.
  static absl::StatusOr<std::unique_ptr<CoordinatorProcess>> Start(CoordinatorOptions options);
  ~CoordinatorProcess();  // Shutdown(1 s)

  int port() const { return server_->port(); }
  std::string address() const { return server_->address(); }
  Store& store() { return *store_; }
  MigrationManager& manager() { return *manager_; }
  WorkerRegistry& registry() { return *registry_; }
  // Streams end at once, other calls by the deadline; running jobs stay in the store for the next start.
  void Shutdown(absl::Duration deadline);

 private:
  CoordinatorProcess() = default;

  RealClock clock_;
  std::atomic<bool> stopping_{false};
  cost::Corrections corrections_;
  GrpcWorkerApi api_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<cost::LinkTable> links_;
  std::unique_ptr<WorkerRegistry> registry_;
  std::unique_ptr<MigrationManager> manager_;
  std::unique_ptr<CoordinatorService> coordinator_service_;
  std::unique_ptr<RegistryService> registry_service_;
  std::unique_ptr<CalibrationService> calibration_service_;
  std::unique_ptr<RpcServer> server_;
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_RPC_COORDINATOR_H_

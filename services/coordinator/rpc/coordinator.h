// A whole coordinator in one object: store, core, services, server. main.cc and the integration tests start it.
//
// With the memory or SQLite store it leads from the start to the end. With etcd there may be several: each serves from its start, the one
// that wins the election leads, the others answer NOT_LEADER and campaign again and again. A leader that can no longer be sure to lead
// ends its term: it lets nobody in any more, stops its jobs where they are, and campaigns like the others. Whoever leads next goes on
// with every job from its record.
#ifndef RISKKV_SERVICES_COORDINATOR_RPC_COORDINATOR_H_
#define RISKKV_SERVICES_COORDINATOR_RPC_COORDINATOR_H_

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/cost/corrections.h"
#include "common/cost/links.h"
#include "common/net/server.h"
#include "common/store/etcd/leadership.h"
#include "common/store/store.h"
#include "services/coordinator/core/migration_manager.h"
#include "services/coordinator/rpc/grpc_worker_api.h"
#include "services/coordinator/rpc/services.h"

namespace riskkv::coordinator {

struct CoordinatorOptions {
  std::string listen = "127.0.0.1:0";
  std::string advertise;         // where others reach it, for NOT_LEADER; empty: where it listens
  std::string store = "memory";  // or sqlite:PATH, or etcd:HOST:PORT[,HOST:PORT...][/PREFIX]
  absl::Duration leader_ttl = absl::Seconds(5);     // etcd: how long a leader that is silent is still waited for; whole seconds
  absl::Duration etcd_timeout = absl::Seconds(2);   // etcd: of one call
  absl::Duration lease = absl::Seconds(10);
  absl::Duration renew = absl::Seconds(3);
  bool insecure = false;
  ManagerOptions manager;
  Logger log;  // null: none
};

// Thread-safe once started.
class CoordinatorProcess {
 public:
  // As OpenStore, ParseEtcdSpec, MigrationManager::Start and RpcServer::Start; INVALID_ARGUMENT for durations that make no sense. With etcd
  // it does not wait for the lead, nor for etcd.
  static absl::StatusOr<std::unique_ptr<CoordinatorProcess>> Start(CoordinatorOptions options);
  ~CoordinatorProcess();  // Shutdown(1 s)

  int port() const { return server_->port(); }
  std::string address() const { return server_->address(); }
  bool leading() const { return leading_; }
  // Streams end at once, other calls by the deadline; running jobs stay in the store for whoever leads next.
  void Shutdown(absl::Duration deadline);

 private:
  // From taking the lead to losing it. Members are destroyed from the last to the first.
  struct Term {
    std::shared_ptr<std::atomic<bool>> stopping = std::make_shared<std::atomic<bool>>(false);
    std::unique_ptr<Store> store;
    std::unique_ptr<WorkerRegistry> registry;
    std::unique_ptr<MigrationManager> manager;
  };

  explicit CoordinatorProcess(CoordinatorOptions options);
  absl::Status Serve();
  absl::Status Lead(std::unique_ptr<Store> store);
  void StepDown();
  // The thread of the election.
  void RunForOffice(std::shared_ptr<etcd::Api> api, etcd::ElectionOptions election);
  // One campaign, and the term that may follow; returns how long to wait before the next.
  absl::Duration Campaign(const std::shared_ptr<etcd::Api>& api, const etcd::ElectionOptions& election);
  void ReportRole(const std::string& role);
  bool Sleep(absl::Duration duration);  // false when stopping

  const CoordinatorOptions options_;
  const Logger log_;
  const std::string id_;
  RealClock clock_;
  cost::Corrections corrections_;
  cost::LinkTable links_{&clock_};
  GrpcWorkerApi api_;
  ServiceGate gate_;
  CoordinatorService coordinator_service_{&gate_};
  RegistryService registry_service_{&gate_};
  CalibrationService calibration_service_{&gate_};
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<Term> term_;  // of the election's thread, while it runs
  std::atomic<bool> leading_{false};
  std::string role_;            // the last one reported
  Mutex mu_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread election_;
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_RPC_COORDINATOR_H_

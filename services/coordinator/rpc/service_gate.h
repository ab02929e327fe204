// Lets calls in while this coordinator leads, and tells the others where the leader is.
#ifndef RISKKV_SERVICES_COORDINATOR_RPC_SERVICE_GATE_H_
#define RISKKV_SERVICES_COORDINATOR_RPC_SERVICE_GATE_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/cost/links.h"
#include "common/obs/log.h"
#include "common/store/store.h"
#include "services/coordinator/core/migration_manager.h"
#include "services/coordinator/core/worker_api.h"
#include "services/coordinator/core/worker_registry.h"

namespace riskkv::coordinator {

// What calls work with during one term. All of it outlives them.
struct ServiceContext {
  MigrationManager* manager = nullptr;
  WorkerRegistry* registry = nullptr;
  cost::LinkTable* links = nullptr;
  WorkerApi* api = nullptr;
  Store* store = nullptr;
  const Clock* clock = nullptr;
  Logger log;
  std::string coordinator_id;
  absl::Duration renew = absl::Seconds(3);
  std::shared_ptr<const std::atomic<bool>> stopping;  // the term ends: long calls return
};

// Thread-safe.
class ServiceGate {
 public:
  // Held for as long as a call works with it. UNAVAILABLE (NOT_LEADER) with the leader's address.
  absl::StatusOr<std::shared_ptr<const ServiceContext>> Enter() const;
  void Open(ServiceContext context);
  // Nobody enters from now on; returns when everybody has left. Set the context's `stopping` first. A call that may wait for its client
  // must not hold what it got from Enter meanwhile.
  void Close();
  // Whom Enter names. Empty: nobody.
  void NameLeader(const std::string& address);

 private:
  mutable Mutex mu_;
  std::shared_ptr<const ServiceContext> context_ ABSL_GUARDED_BY(mu_);
  std::string leader_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_RPC_SERVICE_GATE_H_

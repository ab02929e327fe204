#include "services/coordinator/rpc/coordinator.h"

#include <utility>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::coordinator {

absl::StatusOr<std::unique_ptr<CoordinatorProcess>> CoordinatorProcess::Start(CoordinatorOptions options) {
  if (options.renew <= absl::ZeroDuration() || options.lease < 2 * options.renew) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
                     fmt::format("a lease of {} needs renewals at most every half of it, not every {}",
                                 std::string(absl::FormatDuration(options.lease)), std::string(absl::FormatDuration(options.renew))));
  }
  std::unique_ptr<CoordinatorProcess> p(new CoordinatorProcess());
  Logger log = options.log ? options.log : NullLogger();
  ASSIGN_OR_RETURN(p->store_, OpenStore(options.store));
  log->info("store {} at leader term {}", p->store_->name(), p->store_->leader_term());
  p->links_ = std::make_unique<cost::LinkTable>(&p->clock_);
  p->registry_ = std::make_unique<WorkerRegistry>(&p->clock_, options.lease);
  ASSIGN_OR_RETURN(p->manager_, MigrationManager::Start(options.manager, {.store = p->store_.get(),
                                                                          .clock = &p->clock_,
                                                                          .registry = p->registry_.get(),
                                                                          .links = p->links_.get(),
                                                                          .corrections = &p->corrections_,
                                                                          .api = &p->api_,
                                                                          .log = log}));
  ServiceContext context{.manager = p->manager_.get(),
                         .registry = p->registry_.get(),
                         .links = p->links_.get(),
                         .api = &p->api_,
                         .store = p->store_.get(),
                         .clock = &p->clock_,
                         .log = log,
                         .coordinator_id = NewBootId(),
                         .renew = options.renew,
                         .stopping = &p->stopping_};
  p->coordinator_service_ = std::make_unique<CoordinatorService>(context);
  p->registry_service_ = std::make_unique<RegistryService>(context);
  p->calibration_service_ = std::make_unique<CalibrationService>(context);
  ServerOptions server;
  server.listen = options.listen;
  server.insecure = options.insecure;
  server.services = {p->coordinator_service_.get(), p->registry_service_.get(), p->calibration_service_.get()};
  ASSIGN_OR_RETURN(p->server_, RpcServer::Start(server));
  p->server_->SetServing(true);
  return p;
}

CoordinatorProcess::~CoordinatorProcess() { Shutdown(absl::Seconds(1)); }

void CoordinatorProcess::Shutdown(absl::Duration deadline) {
  if (stopping_.exchange(true)) return;
  if (server_) {
    server_->SetServing(false);
    server_->Shutdown(deadline);
  }
  manager_.reset();
}

}  // namespace riskkv::coordinator

// A whole worker in one object: engine's manager, predictor sets, moves, services, server. main.cc and the integration tests
// start it.
#ifndef RISKKV_SERVICES_WORKER_RPC_WORKER_PROCESS_H_
#define RISKKV_SERVICES_WORKER_RPC_WORKER_PROCESS_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/engine/engine.h"
#include "common/net/server.h"
#include "common/obs/log.h"
#include "kernels/backend.h"
#include "services/worker/core/egress_limit.h"
#include "services/worker/core/move_incoming_table.h"
#include "services/worker/core/move_outgoing_table.h"
#include "services/worker/core/predictor_store.h"
#include "services/worker/core/request_manager.h"
#include "services/worker/rpc/cancel_client.h"
#include "services/worker/rpc/coordinator_client.h"
#include "services/worker/rpc/describe.h"
#include "services/worker/rpc/generation_service.h"
#include "services/worker/rpc/peer_client.h"
#include "services/worker/rpc/registration.h"
#include "services/worker/rpc/transfer_service.h"
#include "services/worker/rpc/worker_service.h"

namespace riskkv::worker {

struct WorkerOptions {
  std::string id;
  std::string listen = "127.0.0.1:0";
  std::string advertise;    // host:port the coordinator and other workers reach it at; empty: where it listens
  std::string client_address;  // host:port clients reach it at; empty: as advertised
  std::string coordinator;  // host:port; empty: it is told to no one, and only Decide decides moves
  bool insecure = false;
  std::string predictors;   // folder of *.riskkv; empty: none on disk
  kernels::BackendChoice backend = kernels::BackendChoice::kAuto;
  int backend_threads = 1;
  int max_moves = 4;        // each way
  double egress_limit = 0;  // bytes a second to other workers: frames, link probes, predictor sets; 0: no limit
  ReadinessOptions readiness;
  ManagerOptions manager;   // worker_id and boot_id are filled in
  Logger log;               // null: none
};

// What can be said of the options before a model is loaded: INVALID_ARGUMENT, FAILED_PRECONDITION (plain text beyond loopback).
absl::Status CheckOptions(const WorkerOptions& options);

// Thread-safe once started.
class WorkerProcess {
 public:
  // Errors name the option that is wrong: INVALID_ARGUMENT, FAILED_PRECONDITION, UNAVAILABLE (the port, the backend).
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(WorkerOptions options, std::unique_ptr<Engine> engine);
  ~WorkerProcess();  // Shutdown(1 s)

  int port() const { return server_->port(); }
  std::string address() const { return server_->address(); }
  const std::string& advertised() const { return advertised_; }
  const std::string& client_address() const { return client_address_; }
  const std::string& boot_id() const { return boot_id_; }
  RequestManager& manager() { return *manager_; }
  PredictorStore& predictors() { return *predictors_; }
  IncomingMoves& incoming() { return *incoming_; }
  OutgoingMoves& outgoing() { return *outgoing_; }
  // Known to the coordinator now.
  bool registered() const { return registration_ != nullptr && registration_->registered(); }
  // Streams end at once (clients find their requests again), other calls by the deadline.
  void Shutdown(absl::Duration deadline);

 private:
  WorkerProcess() = default;
  absl::Status StartCore(const WorkerOptions& options, std::unique_ptr<Engine> engine);
  void StartMoves(const WorkerOptions& options);
  absl::Status StartServer(const WorkerOptions& options);

  // In the order of dependence: what stands below uses what stands above, and ends first.
  RealClock clock_;
  std::atomic<bool> stopping_{false};
  Logger log_;
  std::string boot_id_;
  std::string advertised_;
  std::string client_address_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<RequestManager> manager_;
  std::unique_ptr<PredictorStore> predictors_;
  std::unique_ptr<EgressLimit> egress_;
  std::unique_ptr<PeerChannels> channels_;
  std::unique_ptr<CoordinatorClient> coordinator_;  // null without one
  std::unique_ptr<CancelClient> cancel_client_;
  std::unique_ptr<CancelRelay> cancels_;
  std::unique_ptr<IncomingMoves> incoming_;
  std::unique_ptr<OutgoingMoves> outgoing_;
  std::unique_ptr<Readiness> readiness_;
  std::unique_ptr<Describer> describer_;
  std::unique_ptr<Registration> registration_;  // null without a coordinator; FetchSet nudges it, so it outlives the server
  std::unique_ptr<GenerationService> generation_;
  std::unique_ptr<TransferService> transfer_;
  std::unique_ptr<WorkerService> worker_;
  std::unique_ptr<CalibrationService> calibration_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<ReadinessWatch> readiness_watch_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_RPC_WORKER_PROCESS_H_

#include "services/worker/rpc/worker_process.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::worker {
namespace {

constexpr absl::Duration kLookForReadiness = absl::Milliseconds(200);

absl::StatusOr<std::unique_ptr<kernels::Backend>> MakeBackend(kernels::BackendChoice choice, int threads) {
  std::unique_ptr<kernels::Backend> backend;
  const kernels::Status status = kernels::CreateBackend(choice, threads, &backend);
  if (status.ok()) return backend;
  return MakeError(absl::StatusCode::kUnavailable, "NOT_READY", fmt::format("--backend: {}", status.message()));
}

}  // namespace

absl::Status CheckOptions(const WorkerOptions& o) {
  auto bad = [](const std::string& message) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT", message);
  };
  if (o.id.empty()) return bad("--id is empty");
  if (!HostOf(o.listen).ok()) return bad(fmt::format("--listen '{}' is not host:port", o.listen));
  if (!o.advertise.empty() && !HostOf(o.advertise).ok()) return bad(fmt::format("--advertise '{}' is not host:port", o.advertise));
  if (!o.client_address.empty() && !HostOf(o.client_address).ok()) {
    return bad(fmt::format("--client-address '{}' is not host:port", o.client_address));
  }
  if (!o.coordinator.empty() && !ParseAddresses(o.coordinator).ok()) {
    return bad(fmt::format("--coordinator '{}' is not host:port[,host:port...]", o.coordinator));
  }
  return CheckListen(o.listen, o.insecure);
}

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(WorkerOptions options, std::unique_ptr<Engine> engine) {
  RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<WorkerProcess> process(new WorkerProcess());
  process->log_ = options.log ? options.log : NullLogger();
  process->boot_id_ = NewBootId();
  RETURN_IF_ERROR(process->StartCore(options, std::move(engine)));
  process->StartMoves(options);
  RETURN_IF_ERROR(process->StartServer(options));
  return process;
}

absl::Status WorkerProcess::StartCore(const WorkerOptions& options, std::unique_ptr<Engine> engine) {
  ASSIGN_OR_RETURN(backend_, MakeBackend(options.backend, options.backend_threads));
  log_->info("rebuilding on {} ({}) {}", backend_->info().backend, backend_->info().device, backend_->info().note);
  ManagerOptions manager = options.manager;
  manager.worker_id = options.id;
  manager.boot_id = boot_id_;
  ASSIGN_OR_RETURN(manager_, RequestManager::Create(std::move(manager), std::move(engine), &clock_));
  predictors_ = std::make_unique<PredictorStore>(options.predictors, manager_->facts().fingerprint, backend_.get(), log_);
  ASSIGN_OR_RETURN(const int sets, predictors_->LoadFolder());
  log_->info("{} predictor set{} in '{}'", sets, sets == 1 ? "" : "s", options.predictors);
  return absl::OkStatus();
}

void WorkerProcess::StartMoves(const WorkerOptions& options) {
  egress_ = std::make_unique<EgressLimit>(options.egress_limit, &clock_, [](absl::Duration d) { absl::SleepFor(d); });
  channels_ = std::make_unique<PeerChannels>(egress_.get());
  if (!options.coordinator.empty()) {
    coordinator_ = std::make_unique<CoordinatorClient>(options.id, *ParseAddresses(options.coordinator));  // CheckOptions has seen it
  }
  cancel_client_ = std::make_unique<CancelClient>(coordinator_.get(), channels_.get());
  cancels_ = std::make_unique<CancelRelay>(CancelRelayOptions{}, manager_.get(), cancel_client_.get(), &clock_, log_);
  IncomingOptions in;
  in.boot_id = boot_id_;
  in.max_moves = options.max_moves;
  incoming_ = std::make_unique<IncomingMoves>(in, manager_.get(), predictors_.get(), coordinator_.get(), &clock_, log_);
  OutgoingOptions out;
  out.boot_id = boot_id_;
  out.max_moves = options.max_moves;
  auto report = [this](const TransferResult& result) {
    if (coordinator_) coordinator_->ReportTransfer(result);
  };
  outgoing_ = std::make_unique<OutgoingMoves>(out, manager_.get(), predictors_.get(), coordinator_.get(),
                                              [this](const std::string& address) { return ConnectPeer(channels_.get(), address); }, &clock_,
                                              log_, report);
  const WorkerIdentity identity{options.id, boot_id_, RISKKV_VERSION, options.max_moves};
  readiness_ = std::make_unique<Readiness>(options.readiness, manager_.get());
  describer_ = std::make_unique<Describer>(identity, manager_.get(), predictors_.get(), incoming_.get(), outgoing_.get(), &clock_,
                                           readiness_.get());
  if (coordinator_) registration_ = std::make_unique<Registration>(coordinator_.get(), describer_.get(), log_);
}

absl::Status WorkerProcess::StartServer(const WorkerOptions& options) {
  generation_ = std::make_unique<GenerationService>(manager_.get(), options.id, cancels_.get());
  transfer_ = std::make_unique<TransferService>(incoming_.get(), predictors_.get(), egress_.get());
  WorkerParts parts{manager_.get(), predictors_.get(), incoming_.get(), outgoing_.get(), describer_.get(), channels_.get(),
                    [this] { if (registration_) registration_->Nudge(); }, &stopping_};
  worker_ = std::make_unique<WorkerService>(std::move(parts));
  calibration_ = std::make_unique<CalibrationService>(predictors_.get());
  ServerOptions server;
  server.listen = options.listen;
  server.insecure = options.insecure;
  server.services = {generation_.get(), transfer_.get(), worker_.get(), calibration_.get()};
  ASSIGN_OR_RETURN(server_, RpcServer::Start(server));
  advertised_ = options.advertise.empty() ? server_->address() : options.advertise;
  client_address_ = options.client_address.empty() ? advertised_ : options.client_address;
  describer_->SetAddress(advertised_, client_address_);
  readiness_watch_ = std::make_unique<ReadinessWatch>(readiness_.get(), kLookForReadiness,
                                                      [this](bool serving) { server_->SetServing(serving); }, log_);
  if (registration_) registration_->Start();
  return absl::OkStatus();
}

void WorkerProcess::Shutdown(absl::Duration deadline) {
  if (!server_) return;
  readiness_watch_->Stop();
  server_->SetServing(false);
  stopping_ = true;
  if (registration_) registration_->Stop();
  manager_->Stop();  // streams end, and with them the calls that hold the server
  server_->Shutdown(deadline);
}

WorkerProcess::~WorkerProcess() { Shutdown(absl::Seconds(1)); }

}  // namespace riskkv::worker

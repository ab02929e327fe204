#include "services/coordinator/rpc/coordinator.h"

#include <algorithm>
#include <utility>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/net/etcd_client.h"
#include "common/store/etcd/etcd_store.h"
#include "fmt/format.h"

namespace riskkv::coordinator {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(50);        // whether the lead is still held
constexpr absl::Duration kLongestCampaignWait = absl::Seconds(1);
constexpr const char* kLeaderServices[] = {"riskkv.v1.Coordinator", "riskkv.v1.Registry", "riskkv.v1.Calibration"};

std::string Text(absl::Duration d) { return std::string(absl::FormatDuration(d)); }

absl::Status CheckOptions(const CoordinatorOptions& o) {
  auto bad = [](const std::string& message) { return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT", message); };
  if (o.renew <= absl::ZeroDuration() || o.lease < 2 * o.renew) {
    return bad(fmt::format("a lease of {} needs renewals at most every half of it, not every {}", Text(o.lease), Text(o.renew)));
  }
  if (o.leader_ttl < absl::Seconds(1)) return bad(fmt::format("a leader's lease of {} is below etcd's second", Text(o.leader_ttl)));
  if (!o.advertise.empty() && !HostOf(o.advertise).ok()) return bad(fmt::format("--advertise '{}' is not host:port", o.advertise));
  return absl::OkStatus();
}

}  // namespace

CoordinatorProcess::CoordinatorProcess(CoordinatorOptions options)
    : options_(std::move(options)), log_(options_.log ? options_.log : NullLogger()), id_(NewBootId()) {}

absl::StatusOr<std::unique_ptr<CoordinatorProcess>> CoordinatorProcess::Start(CoordinatorOptions options) {
  RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<CoordinatorProcess> p(new CoordinatorProcess(std::move(options)));
  if (!IsEtcdSpec(p->options_.store)) {
    ASSIGN_OR_RETURN(std::unique_ptr<Store> store, OpenStore(p->options_.store));
    RETURN_IF_ERROR(p->Serve());
    RETURN_IF_ERROR(p->Lead(std::move(store)));
    return p;
  }
  ASSIGN_OR_RETURN(EtcdOptions etcd, ParseEtcdSpec(p->options_.store));
  etcd.timeout = p->options_.etcd_timeout;
  RETURN_IF_ERROR(p->Serve());
  etcd::ElectionOptions election{.prefix = etcd.prefix, .id = p->id_, .ttl = p->options_.leader_ttl};
  election.address = p->options_.advertise.empty() ? p->address() : p->options_.advertise;
  CoordinatorProcess* raw = p.get();
  p->election_ = std::thread([raw, api = std::make_shared<EtcdClient>(etcd), election] { raw->RunForOffice(api, election); });
  return p;
}

absl::Status CoordinatorProcess::Serve() {
  ServerOptions server;
  server.listen = options_.listen;
  server.insecure = options_.insecure;
  server.services = {&coordinator_service_, &registry_service_, &calibration_service_};
  ASSIGN_OR_RETURN(server_, RpcServer::Start(server));
  // A follower is healthy; what it does not do shows in the health of the services.
  server_->SetServing(true);
  for (const char* service : kLeaderServices) server_->SetServing(service, false);
  return absl::OkStatus();
}

absl::Status CoordinatorProcess::Lead(std::unique_ptr<Store> store) {
  auto term = std::make_unique<Term>();
  term->store = std::move(store);
  term->registry = std::make_unique<WorkerRegistry>(&clock_, options_.lease);
  ASSIGN_OR_RETURN(term->manager, MigrationManager::Start(options_.manager, {.store = term->store.get(),
                                                                             .clock = &clock_,
                                                                             .registry = term->registry.get(),
                                                                             .links = &links_,
                                                                             .corrections = &corrections_,
                                                                             .api = &api_,
                                                                             .log = log_}));
  term_ = std::move(term);
  gate_.Open({.manager = term_->manager.get(),
              .registry = term_->registry.get(),
              .links = &links_,
              .api = &api_,
              .store = term_->store.get(),
              .clock = &clock_,
              .log = log_,
              .coordinator_id = id_,
              .renew = options_.renew,
              .stopping = term_->stopping});
  for (const char* service : kLeaderServices) server_->SetServing(service, true);
  leading_ = true;
  ReportRole(fmt::format("leading: store {} at leader term {}", term_->store->name(), term_->store->leader_term()));
  return absl::OkStatus();
}

void CoordinatorProcess::StepDown() {
  if (!term_) return;
  leading_ = false;
  for (const char* service : kLeaderServices) server_->SetServing(service, false);
  *term_->stopping = true;
  gate_.Close();
  term_.reset();
}

void CoordinatorProcess::ReportRole(const std::string& role) {
  if (role == role_) return;
  role_ = role;
  log_->info("{}", role);
}

bool CoordinatorProcess::Sleep(absl::Duration duration) {
  MutexLock lock(mu_);
  if (!stopping_) wake_.WaitFor(mu_, absl::ToChronoNanoseconds(duration));
  return !stopping_;
}

void CoordinatorProcess::RunForOffice(std::shared_ptr<etcd::Api> api, etcd::ElectionOptions election) {
  while (Sleep(Campaign(api, election))) {
  }
}

absl::Duration CoordinatorProcess::Campaign(const std::shared_ptr<etcd::Api>& api, const etcd::ElectionOptions& election) {
  const absl::Duration again = std::min(election.ttl / 4, kLongestCampaignWait);
  absl::StatusOr<etcd::Campaigned> campaigned = etcd::Leadership::Campaign(api, &clock_, election);
  if (!campaigned.ok()) {
    gate_.NameLeader("");
    ReportRole(fmt::format("not leading: {}", campaigned.status()));
    return again;
  }
  if (!campaigned->won) {
    gate_.NameLeader(campaigned->leader.address);
    ReportRole(fmt::format("following {} at {} in term {}", campaigned->leader.id, campaigned->leader.address, campaigned->leader.term));
    return again;
  }
  absl::Status led = Lead(std::make_unique<etcd::EtcdStore>(api, std::move(campaigned->won), election.prefix));
  if (!led.ok()) {
    ReportRole(fmt::format("won the lead, but cannot take it up: {}", led));
    return again;
  }
  while (led.ok() && Sleep(kLookEvery)) led = term_->store->Leading();
  if (!led.ok()) log_->error("no longer leading: {}", led);
  StepDown();
  return absl::ZeroDuration();
}

CoordinatorProcess::~CoordinatorProcess() { Shutdown(absl::Seconds(1)); }

void CoordinatorProcess::Shutdown(absl::Duration deadline) {
  {
    MutexLock lock(mu_);
    if (stopping_) return;
    stopping_ = true;
    wake_.NotifyAll();
  }
  if (!server_) return;
  server_->SetServing(false);
  if (election_.joinable()) election_.join();
  StepDown();
  server_->Shutdown(deadline);
}

}  // namespace riskkv::coordinator

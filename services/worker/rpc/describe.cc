#include "services/worker/rpc/describe.h"

#include <utility>

#include "common/net/convert.h"
#include "fmt/format.h"

namespace riskkv::worker {
namespace {

v1::GroupInfo ToProto(const PredictorSet& set, std::size_t g) {
  const riskkv::GroupInfo& group = set.groups()[g];
  v1::GroupInfo out;
  out.mutable_anchors()->Add(group.spec.anchors.begin(), group.spec.anchors.end());
  out.mutable_targets()->Add(group.spec.targets.begin(), group.spec.targets.end());
  out.set_risk(group.risk.mean);
  out.set_predictor_bytes(set.GroupBytes(static_cast<int>(g)));
  return out;
}

v1::ProfileInfo ToProto(const Profile& p) {
  v1::ProfileInfo out;
  out.set_name(p.name);
  out.set_epsilon(p.epsilon);
  out.mutable_groups()->Add(p.groups.begin(), p.groups.end());
  out.mutable_omitted_layers()->Add(p.omitted_layers.begin(), p.omitted_layers.end());
  out.set_gated(p.gated);
  out.set_mean(p.select.mean);
  out.set_upper90(p.select.upper90);
  out.set_confirm_mean(p.confirm.mean);
  out.set_confirm_upper90(p.confirm.upper90);
  out.set_first_exact(p.ends.first);
  out.set_last_exact(p.ends.last);
  if (p.mode == TransferMode::kRisk) out.set_mode(v1::MODE_RISK);
  return out;
}

v1::ProfileInfo ToProto(const PredictorSet& set, const CodedProfile& p) {
  const CodedTokenBytes bytes = TokenBytes(set.layout(), p, CalibratedHistory(set));
  v1::ProfileInfo out;
  out.set_name(p.name);
  out.set_epsilon(p.epsilon);
  out.set_gated(p.gated);
  out.set_mean(p.select.mean);
  out.set_upper90(p.select.upper90);
  out.set_confirm_mean(p.confirm.mean);
  out.set_confirm_upper90(p.confirm.upper90);
  out.set_first_exact(p.ends.first);
  out.set_last_exact(p.ends.last);
  out.set_mode(v1::MODE_CODED);
  out.set_coded_token_bytes(bytes.body);
  out.set_end_token_bytes(bytes.ends);
  out.set_times_fewer(p.times_fewer);
  return out;
}

}  // namespace

v1::PredictorSetInfo ToProto(const LoadedSet& loaded) {
  const PredictorSet& set = *loaded.set;
  v1::PredictorSetInfo out;
  out.set_digest(set.digest());
  *out.mutable_fingerprint() = riskkv::ToProto(set.fingerprint());
  out.set_weight_type(set.weight_type_name());
  out.set_file_bytes(set.file_bytes());
  for (std::size_t g = 0; g < set.groups().size(); ++g) *out.add_groups() = ToProto(set, g);
  for (const auto& [name, profile] : set.profiles()) *out.add_profiles() = ToProto(profile);
  for (const CodedProfile& profile : loaded.coded) *out.add_profiles() = ToProto(set, profile);
  return out;
}

Describer::Describer(WorkerIdentity identity, RequestManager* manager, PredictorStore* predictors, IncomingMoves* incoming,
                     OutgoingMoves* outgoing, const Clock* clock, const Readiness* readiness)
    : identity_(std::move(identity)), manager_(manager), predictors_(predictors), incoming_(incoming), outgoing_(outgoing), clock_(clock),
      readiness_(readiness), started_(clock->Monotonic()) {}

v1::WorkerLoad Describer::Load() const {
  const ManagerLoad load = manager_->Load();
  v1::WorkerLoad out;
  out.set_cells_total(load.cells_total);
  out.set_cells_used(load.cells_used);
  out.set_slots_total(load.slots_total);
  out.set_slots_used(load.slots_used);
  out.set_queued(load.queued);
  out.set_running(load.running);
  out.set_load(load.busy);
  out.set_moves_in(incoming_->active());
  out.set_moves_out(outgoing_->active());
  out.set_moves_limit(identity_.moves_limit);
  out.set_pins(incoming_->active());
  return out;
}

v1::WorkerCosts Describer::Costs() const {
  const ManagerLoad load = manager_->Load();
  v1::WorkerCosts out;
  out.set_prefill_p1(load.prefill_p1);
  out.set_prefill_p2(load.prefill_p2);
  out.set_decode_s(load.decode_s);
  out.set_decode_s_per_token(load.decode_s_per_token);
  const SetCosts sets = predictors_->Costs();
  out.set_rebuild_s(sets.rebuild_s);
  out.set_coded_encode_s(sets.encode_s);
  out.set_coded_decode_s(sets.decode_s);
  out.set_import_s(load.append_s);
  out.set_export_s(load.export_s);
  return out;
}

void Describer::SetAddress(std::string address, std::string client_address) {
  MutexLock lock(mu_);
  address_ = std::move(address);
  client_address_ = std::move(client_address);
}

v1::WorkerInfo Describer::Info() const {
  const ModelFacts& facts = manager_->facts();
  v1::WorkerInfo out;
  out.set_worker_id(identity_.worker_id);
  out.set_boot_id(identity_.boot_id);
  {
    MutexLock lock(mu_);
    out.set_address(address_);
    out.set_client_address(client_address_);
  }
  out.set_version(identity_.version);
  out.set_model(facts.name);
  *out.mutable_fingerprint() = riskkv::ToProto(facts.fingerprint);
  *out.mutable_load() = Load();
  *out.mutable_costs() = Costs();
  for (const auto& set : predictors_->List()) *out.add_sets() = worker::ToProto(*set);
  const kernels::DeviceInfo& device = predictors_->backend()->info();
  out.set_backend(device.note.empty() ? fmt::format("{}: {}", device.backend, device.device)
                                      : fmt::format("{}: {} ({})", device.backend, device.device, device.note));
  for (v1::Mode mode : {v1::MODE_FULL, v1::MODE_RISK, v1::MODE_CODED, v1::MODE_REPLAY}) out.add_modes(mode);
  out.set_serving(Serving());
  out.set_engine_threads(manager_->limits().threads);
  out.set_uptime_seconds(absl::ToDoubleSeconds(clock_->Monotonic() - started_));
  return out;
}

}  // namespace riskkv::worker

#include "services/coordinator/rpc/convert_worker.h"

#include <algorithm>

#include "common/net/convert.h"

namespace riskkv::coordinator {
// Overloads of what the header declares, so not in an unnamed namespace, which would hide those.
static GroupInfo FromProto(const v1::GroupInfo& g) {
  return {.anchors = {g.anchors().begin(), g.anchors().end()},
          .targets = {g.targets().begin(), g.targets().end()},
          .risk = g.risk(),
          .predictor_bytes = g.predictor_bytes()};
}

static ProfileInfo FromProto(const v1::ProfileInfo& p) {
  return {.name = p.name(),
          .epsilon = p.epsilon(),
          .groups = {p.groups().begin(), p.groups().end()},
          .omitted_layers = {p.omitted_layers().begin(), p.omitted_layers().end()},
          .gated = p.gated(),
          .mean = p.mean(),
          .upper90 = p.upper90(),
          .confirm_mean = p.confirm_mean(),
          .confirm_upper90 = p.confirm_upper90(),
          .first_exact = p.first_exact(),
          .last_exact = p.last_exact(),
          .coded = p.mode() == v1::MODE_CODED,
          .coded_token_bytes = p.coded_token_bytes(),
          .end_token_bytes = p.end_token_bytes(),
          .times_fewer = p.times_fewer()};
}

static v1::GroupInfo ToProto(const GroupInfo& g) {
  v1::GroupInfo out;
  out.mutable_anchors()->Add(g.anchors.begin(), g.anchors.end());
  out.mutable_targets()->Add(g.targets.begin(), g.targets.end());
  out.set_risk(g.risk);
  out.set_predictor_bytes(g.predictor_bytes);
  return out;
}

static v1::ProfileInfo ToProto(const ProfileInfo& p) {
  v1::ProfileInfo out;
  out.set_name(p.name);
  out.set_epsilon(p.epsilon);
  out.mutable_groups()->Add(p.groups.begin(), p.groups.end());
  out.mutable_omitted_layers()->Add(p.omitted_layers.begin(), p.omitted_layers.end());
  out.set_gated(p.gated);
  out.set_mean(p.mean);
  out.set_upper90(p.upper90);
  out.set_confirm_mean(p.confirm_mean);
  out.set_confirm_upper90(p.confirm_upper90);
  out.set_first_exact(p.first_exact);
  out.set_last_exact(p.last_exact);
  out.set_mode(p.coded ? v1::MODE_CODED : p.omitted_layers.empty() ? v1::MODE_UNSPECIFIED : v1::MODE_RISK);
  out.set_coded_token_bytes(p.coded_token_bytes);
  out.set_end_token_bytes(p.end_token_bytes);
  out.set_times_fewer(p.times_fewer);
  return out;
}

static v1::WorkerLoad ToProto(const WorkerLoad& l) {
  v1::WorkerLoad out;
  out.set_cells_total(l.cells_total);
  out.set_cells_used(l.cells_used);
  out.set_slots_total(l.slots_total);
  out.set_slots_used(l.slots_used);
  out.set_queued(l.queued);
  out.set_running(l.running);
  out.set_load(l.load);
  out.set_moves_in(l.moves_in);
  out.set_moves_out(l.moves_out);
  out.set_moves_limit(l.moves_limit);
  out.set_pins(l.pins);
  return out;
}

static v1::WorkerCosts ToProto(const WorkerCosts& c) {
  v1::WorkerCosts out;
  out.set_prefill_p1(c.prefill_p1);
  out.set_prefill_p2(c.prefill_p2);
  out.set_decode_s(c.decode_s);
  out.set_decode_s_per_token(c.decode_s_per_token);
  out.set_rebuild_s(c.rebuild_s);
  out.set_import_s(c.import_s);
  out.set_export_s(c.export_s);
  out.set_coded_encode_s(c.coded_encode_s);
  out.set_coded_decode_s(c.coded_decode_s);
  return out;
}

WorkerLoad FromProto(const v1::WorkerLoad& l) {
  return {.cells_total = l.cells_total(),
          .cells_used = l.cells_used(),
          .slots_total = l.slots_total(),
          .slots_used = l.slots_used(),
          .queued = l.queued(),
          .running = l.running(),
          .load = l.load(),
          .moves_in = l.moves_in(),
          .moves_out = l.moves_out(),
          .moves_limit = l.moves_limit(),
          .pins = l.pins()};
}

WorkerCosts FromProto(const v1::WorkerCosts& c) {
  return {.prefill_p1 = c.prefill_p1(),
          .prefill_p2 = c.prefill_p2(),
          .decode_s = c.decode_s(),
          .decode_s_per_token = c.decode_s_per_token(),
          .rebuild_s = c.rebuild_s(),
          .import_s = c.import_s(),
          .export_s = c.export_s(),
          .coded_encode_s = c.coded_encode_s(),
          .coded_decode_s = c.coded_decode_s()};
}

SetInfo FromProto(const v1::PredictorSetInfo& s) {
  SetInfo set;
  set.digest = s.digest();
  set.fingerprint = riskkv::FromProto(s.fingerprint());
  set.weight_type = s.weight_type();
  set.file_bytes = s.file_bytes();
  for (const auto& group : s.groups()) set.groups.push_back(FromProto(group));
  for (const auto& profile : s.profiles()) set.profiles.push_back(FromProto(profile));
  return set;
}

WorkerInfo FromProto(const v1::WorkerInfo& w) {
  WorkerInfo info;
  info.name = {.id = w.worker_id(), .boot_id = w.boot_id(), .address = w.address(), .client_address = w.client_address()};
  info.model = w.model();
  info.fingerprint = riskkv::FromProto(w.fingerprint());
  info.load = FromProto(w.load());
  info.costs = FromProto(w.costs());
  for (const auto& set : w.sets()) info.sets.push_back(FromProto(set));
  info.backend = w.backend();
  info.version = w.version();
  for (int mode : w.modes()) info.modes.insert(static_cast<Mode>(mode));
  info.serving = w.serving();
  info.engine_threads = w.engine_threads();
  info.uptime_seconds = w.uptime_seconds();
  return info;
}

RequestInfo FromProto(const v1::RequestInfo& r) {
  RequestInfo info;
  info.request_id = r.request_id();
  info.epoch = r.epoch();
  info.start_index = static_cast<int64_t>(r.start_index());
  info.finished = r.state() == v1::REQUEST_STATE_FINISHED;
  info.moved = r.state() == v1::REQUEST_STATE_MOVED;
  info.prompt_tokens = r.prompt_tokens();
  info.output_tokens = r.output_tokens();
  info.n_kv = r.n_kv();
  info.max_tokens = r.max_tokens();
  for (const auto& p : r.provenance()) {
    info.provenance.push_back({riskkv::FromProto(p.range()), p.predictor_set(), p.profile()});
  }
  v1::ReserveRequest parameters;
  if (r.has_sampling()) *parameters.mutable_sampling() = r.sampling();
  if (r.has_stop()) *parameters.mutable_stop() = r.stop();
  info.parameters = parameters.SerializeAsString();
  return info;
}

LeaseRenewal FromProto(const v1::LeaseRenewal& r) {
  return {.worker_id = r.worker_id(),
          .boot_id = r.boot_id(),
          .load = FromProto(r.load()),
          .costs = FromProto(r.costs()),
          .serving = r.serving(),
          .set_digests = {r.set_digests().begin(), r.set_digests().end()}};
}

v1::PredictorSetInfo ToProto(const SetInfo& set) {
  v1::PredictorSetInfo out;
  out.set_digest(set.digest);
  *out.mutable_fingerprint() = riskkv::ToProto(set.fingerprint);
  out.set_weight_type(set.weight_type);
  out.set_file_bytes(set.file_bytes);
  for (const GroupInfo& group : set.groups) *out.add_groups() = ToProto(group);
  for (const ProfileInfo& profile : set.profiles) *out.add_profiles() = ToProto(profile);
  return out;
}

v1::WorkerInfo ToProto(const RegisteredWorker& worker) {
  const WorkerInfo& w = worker.info;
  v1::WorkerInfo out;
  out.set_worker_id(w.name.id);
  out.set_boot_id(w.name.boot_id);
  out.set_address(w.name.address);
  out.set_client_address(w.name.for_clients());
  out.set_model(w.model);
  *out.mutable_fingerprint() = riskkv::ToProto(w.fingerprint);
  *out.mutable_load() = ToProto(w.load);
  *out.mutable_costs() = ToProto(w.costs);
  for (const SetInfo& set : w.sets) *out.add_sets() = ToProto(set);
  out.set_backend(w.backend);
  out.set_version(w.version);
  for (Mode mode : w.modes) out.add_modes(static_cast<v1::Mode>(mode));
  out.set_serving(w.serving && worker.alive());
  out.set_lease_remaining_seconds(std::max(0.0, absl::ToDoubleSeconds(worker.lease_remaining)));
  out.set_engine_threads(w.engine_threads);
  out.set_uptime_seconds(w.uptime_seconds);
  return out;
}

v1::Link ToProto(const cost::LinkEstimate& link) {
  v1::Link out;
  out.set_source(link.source);
  out.set_destination(link.destination);
  out.set_bytes_per_second(link.bytes_per_second);
  out.set_rtt_seconds(link.rtt_seconds);
  out.set_samples(link.samples);
  out.set_age_seconds(absl::ToDoubleSeconds(link.age));
  return out;
}

}  // namespace riskkv::coordinator

#include "services/worker/rpc/convert_move.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/net/convert.h"
#include "common/net/status.h"
#include "services/worker/rpc/request_convert.h"

namespace riskkv::worker {
// Overloads of what the header declares, so not in an unnamed namespace, which would hide those.
static v1::Segment ToProto(const Segment& s) {
  v1::Segment out;
  out.set_id(s.id);
  out.set_kind(static_cast<v1::SegmentKind>(s.kind));
  if (s.kind == SegmentKind::kCells) *out.mutable_range() = riskkv::ToProto(s.range);
  out.mutable_positions()->Add(s.positions.begin(), s.positions.end());
  out.mutable_layers()->Add(s.layers.begin(), s.layers.end());
  out.set_bytes(s.bytes);
  out.set_sha256(s.sha256);
  out.set_rebuild(s.rebuild);
  out.set_encoding(static_cast<v1::CellEncoding>(s.encoding));
  return out;
}

static Segment FromProto(const v1::Segment& s) {
  Segment out;
  out.id = s.id();
  out.kind = s.kind() == v1::SEGMENT_KIND_PROBE ? SegmentKind::kProbe : SegmentKind::kCells;
  out.range = riskkv::FromProto(s.range());
  out.positions.assign(s.positions().begin(), s.positions().end());
  out.layers.assign(s.layers().begin(), s.layers().end());
  out.bytes = s.bytes();
  out.sha256 = s.sha256();
  out.rebuild = s.rebuild();
  out.encoding = static_cast<CellEncoding>(s.encoding());  // CheckManifest refuses what it does not know
  return out;
}

static void SetDetail(const RoundDone& r, v1::MoveEvent& out) { *out.mutable_round() = riskkv::ToProto(r); }
static void SetDetail(const PausedAt& p, v1::MoveEvent& out) { *out.mutable_paused() = riskkv::ToProto(p); }
static void SetDetail(const RequestEnded& e, v1::MoveEvent& out) {
  out.mutable_ended()->set_reason(ToProto(e.reason));
  out.mutable_ended()->set_output_tokens(e.output_tokens);
}
static void SetDetail(const MoveStats& s, v1::MoveEvent& out) { *out.mutable_prepared() = riskkv::ToProto(s); }
static void SetDetail(const absl::Status& s, v1::MoveEvent& out) { *out.mutable_failed() = riskkv::ToProto(s); }
static void SetDetail(const std::monostate&, v1::MoveEvent&) {}

static Decision FromProto(v1::DecideRequest::Decision decision) {
  switch (decision) {
    case v1::DecideRequest::COMMITTED: return Decision::kCommitted;
    case v1::DecideRequest::ABORTED: return Decision::kAborted;
    case v1::DecideRequest::RESUMED: return Decision::kResumed;
    case v1::DecideRequest::ROLLED_BACK: return Decision::kRolledBack;
    default: return Decision::kOpen;
  }
}

v1::RoundManifest ToProto(const RoundManifest& m) {
  v1::RoundManifest out;
  *out.mutable_fence() = ToProto(m.fence);
  *out.mutable_fingerprint() = riskkv::ToProto(m.fingerprint);
  out.set_mode(static_cast<v1::Mode>(m.mode));
  out.set_predictor_set(m.predictor_set);
  out.set_profile(m.profile);
  out.set_round(m.round);
  out.set_final(m.final);
  out.set_frontier(m.frontier);
  for (const Segment& s : m.segments) *out.add_segments() = ToProto(s);
  out.mutable_tokens()->Add(m.tokens.begin(), m.tokens.end());
  for (const Provenance& p : m.provenance) *out.add_provenance() = ToProto(p);
  return out;
}

RoundManifest FromProto(const v1::RoundManifest& m) {
  RoundManifest out;
  out.fence = FromProto(m.fence());
  out.fingerprint = riskkv::FromProto(m.fingerprint());
  out.mode = static_cast<MoveMode>(m.mode());
  out.predictor_set = m.predictor_set();
  out.profile = m.profile();
  out.round = m.round();
  out.final = m.final();
  out.frontier = m.frontier();
  for (const v1::Segment& s : m.segments()) out.segments.push_back(FromProto(s));
  out.tokens.assign(m.tokens().begin(), m.tokens().end());
  for (const v1::Provenance& p : m.provenance()) out.provenance.push_back(FromProto(p));
  return out;
}

v1::RoundReply ToProto(const RoundReply& r) {
  v1::RoundReply out;
  for (TokenRange range : r.held) *out.add_held() = riskkv::ToProto(range);
  out.set_destination_boot_id(r.destination_boot_id);
  return out;
}

RoundReply FromProto(const v1::RoundReply& r) {
  RoundReply out;
  for (const v1::TokenRange& range : r.held()) out.held.push_back(riskkv::FromProto(range));
  out.destination_boot_id = r.destination_boot_id();
  return out;
}

Frame FromProto(const v1::Frame& f) {
  return {f.migration_id(), f.attempt(), f.epoch(), f.segment(), f.offset(), f.length(), f.xxh3(), f.payload()};
}

v1::PushReply ToProto(const PushReply& r) {
  v1::PushReply out;
  out.set_bytes(r.bytes);
  out.mutable_sealed()->Add(r.sealed.begin(), r.sealed.end());
  out.set_rebuilt_frontier(r.rebuilt_frontier);
  return out;
}

PushReply FromProto(const v1::PushReply& r) {
  return {r.bytes(), {r.sealed().begin(), r.sealed().end()}, r.rebuilt_frontier()};
}

v1::FinalRequest ToProto(const FinalRequest& r) {
  v1::FinalRequest out;
  *out.mutable_fence() = ToProto(r.fence);
  out.set_n_tokens(r.n_tokens);
  out.set_n_kv(r.n_kv);
  out.mutable_prompt()->Add(r.prompt.begin(), r.prompt.end());
  for (const LoggedToken& token : r.log) *out.add_log() = ToProto(token);
  *out.mutable_sampling() = riskkv::ToProto(r.params.sampling);
  *out.mutable_stop() = ToProto(r.params.stop);
  for (const Provenance& p : r.provenance) *out.add_provenance() = ToProto(p);
  out.set_digest(r.digest);
  out.set_prompt_tokens(static_cast<int64_t>(r.prompt.size()));
  constexpr std::size_t kRecent = 64;
  for (std::size_t i = r.log.size() > kRecent ? r.log.size() - kRecent : 0; i < r.log.size(); ++i) {
    out.add_recent_logprobs(r.log[i].logprob);
  }
  return out;
}

absl::StatusOr<FinalRequest> FromProto(const v1::FinalRequest& r) {
  FinalRequest out;
  out.fence = FromProto(r.fence());
  out.n_tokens = r.n_tokens();
  out.n_kv = r.n_kv();
  out.prompt.assign(r.prompt().begin(), r.prompt().end());
  for (const v1::TokenRecord& token : r.log()) out.log.push_back(FromProto(token));
  ASSIGN_OR_RETURN(out.params, ParamsFromProto(r.sampling(), r.stop()));
  for (const v1::Provenance& p : r.provenance()) out.provenance.push_back(FromProto(p));
  out.digest = r.digest();
  return out;
}

v1::FinalReply ToProto(const FinalReply& r) {
  v1::FinalReply out;
  out.set_prepared(r.prepared);
  out.set_rebuild_ms(r.rebuild_ms);
  out.set_probe_error(r.probe_error);
  out.set_tokens_rebuilt(r.tokens_rebuilt);
  out.set_tokens_exact(r.tokens_exact);
  out.set_replay_ms(r.replay_ms);
  out.set_decode_ms(r.decode_ms);
  out.set_tokens_coded(r.tokens_coded);
  for (const auto& [layer, bytes] : r.received) {
    v1::LayerBytes* b = out.add_received();
    b->set_layer(layer);
    b->set_cells(bytes.cells);
    b->set_probe(bytes.probe);
  }
  return out;
}

FinalReply FromProto(const v1::FinalReply& r) {
  FinalReply out{r.prepared(), r.rebuild_ms(), r.probe_error(), r.tokens_rebuilt(), r.tokens_exact(), r.replay_ms(), {},
                 r.decode_ms(), r.tokens_coded()};
  for (const v1::LayerBytes& b : r.received()) out.received[b.layer()] = {b.cells(), b.probe()};
  return out;
}

absl::StatusOr<ReserveParams> FromProto(const v1::ReserveRequest& r) {
  ReserveParams out;
  out.fence = FromProto(r.fence());
  out.fingerprint = riskkv::FromProto(r.fingerprint());
  out.mode = static_cast<MoveMode>(r.mode());
  out.predictor_set = r.predictor_set();
  out.profile = r.profile();
  out.n_kv = r.n_kv();
  out.growth = r.growth();
  out.headroom = r.headroom();
  ASSIGN_OR_RETURN(out.params, ParamsFromProto(r.sampling(), r.stop()));
  if (r.lease_ms() > 0) out.lease = absl::Milliseconds(r.lease_ms());
  return out;
}

StartMoveParams FromProto(const v1::StartMoveRequest& r) {
  StartMoveParams out;
  out.fence = FromProto(r.fence());
  out.mode = static_cast<MoveMode>(r.mode());
  out.predictor_set = r.predictor_set();
  out.profile = r.profile();
  out.destination_id = r.destination_id();
  out.destination_address = r.destination_address();
  out.destination_client_address = r.destination_client_address();
  if (r.max_pause_ms() > 0) out.max_pause = absl::Milliseconds(r.max_pause_ms());
  if (r.deadline_ms() > 0) out.deadline = absl::Milliseconds(r.deadline_ms());
  if (r.max_rounds() > 0) out.max_rounds = r.max_rounds();
  if (r.probe_tokens() > 0) out.probe_tokens = std::min(r.probe_tokens(), kMoveBlockTokens);
  out.hold_for_tests = absl::Milliseconds(r.hold_ms_for_tests());
  return out;
}

v1::MoveEvent ToProto(const MoveEvent& event) {
  v1::MoveEvent out;
  out.set_state(static_cast<v1::MigrationState>(event.state));
  out.set_monotonic_us(absl::ToInt64Microseconds(event.monotonic));
  std::visit([&](const auto& detail) { SetDetail(detail, out); }, event.detail);
  return out;
}

DecisionInfo FromProto(const v1::DecideRequest& r) {
  return {FromProto(r.decision()), r.new_epoch(), r.start_index(), r.owner_id(), r.owner_address(), riskkv::FromProto(r.reason())};
}

DecisionInfo FromProto(const v1::DecisionReply& r) {
  const int decision = r.decision();
  const bool known = decision >= v1::DECISION_OPEN && decision <= v1::DECISION_ROLLED_BACK;
  return {known ? static_cast<Decision>(decision) : Decision::kOpen, r.epoch(), r.start_index(), r.owner(), r.owner_address(),
          riskkv::FromProto(r.reason())};
}

v1::AttemptInfo ToProto(const AttemptInfo& info, const std::string& boot_id) {
  v1::AttemptInfo out;
  out.set_known(info.known);
  out.set_state(static_cast<v1::MigrationState>(info.state));
  out.set_boot_id(boot_id);
  if (!info.error.ok()) *out.mutable_error() = riskkv::ToProto(info.error);
  return out;
}

}  // namespace riskkv::worker

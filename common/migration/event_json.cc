#include "common/migration/event_json.h"

#include "common/base/status.h"
#include "common/migration/record_json.h"

namespace riskkv {

using nlohmann::json;

json TimeJson(absl::Time time) { return absl::ToUnixNanos(time); }

absl::Time TimeFrom(const json& j, const char* key) {
  int64_t nanos = 0;
  Read(j, key, nanos);
  return absl::FromUnixNanos(nanos);
}

json ToJson(const absl::Status& status) {
  if (status.ok()) return nullptr;
  json j = {{"code", static_cast<int>(status.code())},
            {"message", std::string(status.message().data(), status.message().size())}};
  if (auto d = GetDetail(status)) {
    j["reason"] = d->reason;
    j["side"] = d->side;
    j["stage"] = d->stage;
    j["retryable"] = d->retryable;
    j["source_still_serving"] = d->source_still_serving;
    j["in_doubt"] = d->in_doubt;
  }
  return j;
}

absl::Status StatusFrom(const json& parent, const char* key) {
  auto it = parent.find(key);
  if (it == parent.end() || it->is_null()) return absl::OkStatus();
  const json& j = *it;
  absl::Status status(static_cast<absl::StatusCode>(j.at("code").get<int>()), j.at("message").get<std::string>());
  if (!status.ok() && j.contains("reason")) {
    ErrorDetail d;
    Read(j, "reason", d.reason);
    Read(j, "side", d.side);
    Read(j, "stage", d.stage);
    Read(j, "retryable", d.retryable);
    Read(j, "source_still_serving", d.source_still_serving);
    Read(j, "in_doubt", d.in_doubt);
    SetDetail(status, d);
  }
  return status;
}

namespace {

json ToJson(const ModeCost& c) {
  return {{"mode", Name(c.mode)},
          {"possible", c.possible},
          {"why_not", c.why_not},
          {"total_seconds", c.total_seconds},
          {"pause_seconds", c.pause_seconds},
          {"bytes", c.bytes},
          {"terms", c.terms}};
}

ModeCost CostFrom(const json& j) {
  ModeCost c;
  ReadName(j, "mode", c.mode, ParseMode);
  Read(j, "possible", c.possible);
  Read(j, "why_not", c.why_not);
  Read(j, "total_seconds", c.total_seconds);
  Read(j, "pause_seconds", c.pause_seconds);
  Read(j, "bytes", c.bytes);
  Read(j, "terms", c.terms);
  return c;
}

json ToJson(const RoundDone& r) {
  return {{"round", r.round},
          {"frontier", r.frontier},
          {"n_tokens", r.n_tokens},
          {"bytes", r.bytes},
          {"seconds", r.seconds}};
}

RoundDone RoundFrom(const json& j) {
  RoundDone r;
  Read(j, "round", r.round);
  Read(j, "frontier", r.frontier);
  Read(j, "n_tokens", r.n_tokens);
  Read(j, "bytes", r.bytes);
  Read(j, "seconds", r.seconds);
  return r;
}

json ToJson(const PausedAt& p) {
  return {{"n_tokens", p.n_tokens},
          {"remaining_cells", p.remaining_cells},
          {"predicted_pause_ms", p.predicted_pause_ms}};
}

PausedAt PausedFrom(const json& j) {
  PausedAt p;
  Read(j, "n_tokens", p.n_tokens);
  Read(j, "remaining_cells", p.remaining_cells);
  Read(j, "predicted_pause_ms", p.predicted_pause_ms);
  return p;
}

json ToJson(const MoveStats& s) {
  return {{"bytes_sent", s.bytes_sent},
          {"bytes_full", s.bytes_full},
          {"tokens_at_pause", s.tokens_at_pause},
          {"output_tokens", s.output_tokens},
          {"precopy_ms", s.precopy_ms},
          {"final_ms", s.final_ms},
          {"rebuild_ms", s.rebuild_ms},
          {"probe_error", s.probe_error},
          {"tokens_rebuilt", s.tokens_rebuilt},
          {"tokens_exact", s.tokens_exact},
          {"rounds", s.rounds},
          {"omitted_layers", s.omitted_layers},
          {"transfer_seconds", s.transfer_seconds},
          {"replay_ms", s.replay_ms},
          {"encode_ms", s.encode_ms},
          {"decode_ms", s.decode_ms},
          {"tokens_coded", s.tokens_coded}};
}

MoveStats StatsFrom(const json& j) {
  MoveStats s;
  Read(j, "bytes_sent", s.bytes_sent);
  Read(j, "bytes_full", s.bytes_full);
  Read(j, "tokens_at_pause", s.tokens_at_pause);
  Read(j, "output_tokens", s.output_tokens);
  Read(j, "precopy_ms", s.precopy_ms);
  Read(j, "final_ms", s.final_ms);
  Read(j, "rebuild_ms", s.rebuild_ms);
  Read(j, "probe_error", s.probe_error);
  Read(j, "tokens_rebuilt", s.tokens_rebuilt);
  Read(j, "tokens_exact", s.tokens_exact);
  Read(j, "rounds", s.rounds);
  Read(j, "omitted_layers", s.omitted_layers);
  Read(j, "transfer_seconds", s.transfer_seconds);
  Read(j, "replay_ms", s.replay_ms);
  Read(j, "encode_ms", s.encode_ms);
  Read(j, "decode_ms", s.decode_ms);
  Read(j, "tokens_coded", s.tokens_coded);
  return s;
}

json ToJson(const Fallback& f) {
  return {{"from", Name(f.from)}, {"to", Name(f.to)}, {"why", riskkv::ToJson(f.why)}};
}

Fallback FallbackFrom(const json& j) {
  Fallback f;
  ReadName(j, "from", f.from, ParseMode);
  ReadName(j, "to", f.to, ParseMode);
  f.why = StatusFrom(j, "why");
  return f;
}

// The key says which detail it is.
struct DetailWriter {
  json& j;
  void operator()(const std::monostate&) const {}
  void operator()(const Plan& v) const { j["plan"] = riskkv::ToJson(v); }
  void operator()(const RoundDone& v) const { j["round"] = ToJson(v); }
  void operator()(const PausedAt& v) const { j["paused"] = ToJson(v); }
  void operator()(const MoveStats& v) const { j["stats"] = ToJson(v); }
  void operator()(const Fallback& v) const { j["fallback"] = ToJson(v); }
  void operator()(const Outcome& v) const { j["outcome"] = riskkv::ToJson(v); }
};

EventDetail DetailFrom(const json& j) {
  if (j.contains("plan")) return PlanFrom(j.at("plan"));
  if (j.contains("round")) return RoundFrom(j.at("round"));
  if (j.contains("paused")) return PausedFrom(j.at("paused"));
  if (j.contains("stats")) return StatsFrom(j.at("stats"));
  if (j.contains("fallback")) return FallbackFrom(j.at("fallback"));
  if (j.contains("outcome")) return OutcomeFrom(j.at("outcome"));
  return std::monostate{};
}

}  // namespace

json ToJson(const Plan& p) {
  json alternatives = json::array();
  for (const ModeCost& c : p.alternatives) alternatives.push_back(ToJson(c));
  return {{"chosen", Name(p.chosen)},
          {"why", p.why},
          {"alternatives", std::move(alternatives)},
          {"inputs", p.inputs},
          {"predictor_set", p.predictor_set},
          {"profile", p.profile},
          {"set_absent", p.set_absent},
          {"moves_per_set", p.moves_per_set},
          {"break_even_moves", p.break_even_moves},
          {"source", p.source},
          {"destination", p.destination}};
}

Plan PlanFrom(const json& j) {
  Plan p;
  ReadName(j, "chosen", p.chosen, ParseMode);
  Read(j, "why", p.why);
  for (const json& c : j.at("alternatives")) p.alternatives.push_back(CostFrom(c));
  Read(j, "inputs", p.inputs);
  Read(j, "predictor_set", p.predictor_set);
  Read(j, "profile", p.profile);
  Read(j, "set_absent", p.set_absent);
  Read(j, "moves_per_set", p.moves_per_set);
  Read(j, "break_even_moves", p.break_even_moves);
  Read(j, "source", p.source);
  Read(j, "destination", p.destination);
  return p;
}

json ToJson(const Outcome& o) {
  return {{"state", Name(o.state)},
          {"mode", Name(o.mode)},
          {"owner", o.owner},
          {"owner_address", o.owner_address},
          {"epoch", o.epoch},
          {"start_index", o.start_index},
          {"error", riskkv::ToJson(o.error)},
          {"stats", ToJson(o.stats)},
          {"total_ms", o.total_ms},
          {"commit_ms", o.commit_ms},
          {"pause_ms", o.pause_ms},
          {"predicted_ms", o.predicted_ms},
          {"predictor_set", o.predictor_set},
          {"profile", o.profile}};
}

Outcome OutcomeFrom(const json& j) {
  Outcome o;
  ReadName(j, "state", o.state, ParseMigrationState);
  ReadName(j, "mode", o.mode, ParseMode);
  Read(j, "owner", o.owner);
  Read(j, "owner_address", o.owner_address);
  Read(j, "epoch", o.epoch);
  Read(j, "start_index", o.start_index);
  o.error = StatusFrom(j, "error");
  if (j.contains("stats")) o.stats = StatsFrom(j.at("stats"));
  Read(j, "total_ms", o.total_ms);
  Read(j, "commit_ms", o.commit_ms);
  Read(j, "pause_ms", o.pause_ms);
  Read(j, "predicted_ms", o.predicted_ms);
  Read(j, "predictor_set", o.predictor_set);
  Read(j, "profile", o.profile);
  return o;
}

json ToJson(const JobEvent& e) {
  json j = {{"seq", e.seq},     {"state", Name(e.state)},      {"attempt", e.attempt},
            {"epoch", e.epoch}, {"time", TimeJson(e.time)}, {"elapsed_ms", e.elapsed_ms}};
  std::visit(DetailWriter{j}, e.detail);
  return j;
}

JobEvent EventFrom(const json& j) {
  JobEvent e;
  Read(j, "seq", e.seq);
  ReadName(j, "state", e.state, ParseMigrationState);
  Read(j, "attempt", e.attempt);
  Read(j, "epoch", e.epoch);
  e.time = TimeFrom(j, "time");
  Read(j, "elapsed_ms", e.elapsed_ms);
  e.detail = DetailFrom(j);
  return e;
}

}  // namespace riskkv

// Writing is plain; reading uses nlohmann's checked accessors inside one try block (Guarded), the only place where its exceptions
// are caught.
#include "common/migration/record_json.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "common/base/status.h"
#include "common/migration/event_json.h"
#include "fmt/format.h"

namespace riskkv {

using nlohmann::json;

json ToJson(const JobSpec& s) {
  return {{"migration_id", s.migration_id}, {"request_id", s.request_id},       {"expected_epoch", s.expected_epoch},
          {"source", s.source},             {"destination", s.destination},     {"mode", Name(s.mode)},
          {"allow_lossy", s.allow_lossy},   {"predictor_set", s.predictor_set}, {"profile", s.profile},
          {"max_pause_ms", s.max_pause_ms}, {"deadline_ms", s.deadline_ms},     {"on_failure", Name(s.on_failure)},
          {"reason", s.reason},             {"must_move", s.must_move},         {"allow_ungated", s.allow_ungated},
          {"traceparent", s.traceparent}};
}

namespace {

JobSpec SpecFrom(const json& j) {
  JobSpec s;
  Read(j, "migration_id", s.migration_id);
  Read(j, "request_id", s.request_id);
  Read(j, "expected_epoch", s.expected_epoch);
  Read(j, "source", s.source);
  Read(j, "destination", s.destination);
  ReadName(j, "mode", s.mode, ParseMode);
  Read(j, "allow_lossy", s.allow_lossy);
  Read(j, "predictor_set", s.predictor_set);
  Read(j, "profile", s.profile);
  Read(j, "max_pause_ms", s.max_pause_ms);
  Read(j, "deadline_ms", s.deadline_ms);
  ReadName(j, "on_failure", s.on_failure, ParseOnFailure);
  Read(j, "reason", s.reason);
  Read(j, "must_move", s.must_move);
  Read(j, "allow_ungated", s.allow_ungated);
  Read(j, "traceparent", s.traceparent);
  return s;
}

json ToJson(const WorkerName& w) {
  json j = {{"id", w.id}, {"boot_id", w.boot_id}, {"address", w.address}};
  if (!w.client_address.empty()) j["client_address"] = w.client_address;
  return j;
}

WorkerName WorkerFrom(const json& j) {
  WorkerName w;
  Read(j, "id", w.id);
  Read(j, "boot_id", w.boot_id);
  Read(j, "address", w.address);
  Read(j, "client_address", w.client_address);
  return w;
}

json ToJson(const OpenAttempt& a) {
  return {{"migration_id", a.migration_id},
          {"attempt", a.attempt},
          {"destination", ToJson(a.destination)},
          {"leader_term", a.leader_term}};
}

OpenAttempt OpenFrom(const json& j) {
  OpenAttempt a;
  Read(j, "migration_id", a.migration_id);
  Read(j, "attempt", a.attempt);
  a.destination = WorkerFrom(j.at("destination"));
  Read(j, "leader_term", a.leader_term);
  return a;
}

json ToJson(const AttemptRecord& a) {
  return {{"attempt", a.attempt},
          {"mode", Name(a.mode)},
          {"predictor_set", a.predictor_set},
          {"profile", a.profile},
          {"epoch", a.epoch},
          {"source", ToJson(a.source)},
          {"destination", ToJson(a.destination)},
          {"leader_term", a.leader_term},
          {"decision", Name(a.decision)},
          {"new_epoch", a.new_epoch},
          {"start_index", a.start_index},
          {"error", riskkv::ToJson(a.error)}};
}

AttemptRecord AttemptFrom(const json& j) {
  AttemptRecord a;
  Read(j, "attempt", a.attempt);
  ReadName(j, "mode", a.mode, ParseMode);
  Read(j, "predictor_set", a.predictor_set);
  Read(j, "profile", a.profile);
  Read(j, "epoch", a.epoch);
  a.source = WorkerFrom(j.at("source"));
  a.destination = WorkerFrom(j.at("destination"));
  Read(j, "leader_term", a.leader_term);
  ReadName(j, "decision", a.decision, ParseDecision);
  Read(j, "new_epoch", a.new_epoch);
  Read(j, "start_index", a.start_index);
  a.error = StatusFrom(j, "error");
  return a;
}

OwnerRecord OwnerFrom(const json& j) {
  OwnerRecord r;
  r.request_id = j.at("request_id").get<std::string>();
  r.owner = WorkerFrom(j.at("owner"));
  r.epoch = j.at("epoch").get<uint64_t>();
  Read(j, "start_index", r.start_index);
  if (j.contains("open") && !j.at("open").is_null()) r.open = OpenFrom(j.at("open"));
  Read(j, "last_committed", r.last_committed);
  Read(j, "last_attempt", r.last_attempt);
  Read(j, "resumed", r.resumed);
  Read(j, "rolled_back", r.rolled_back);
  if (j.contains("previous")) r.previous = WorkerFrom(j.at("previous"));
  Read(j, "cancelled", r.cancelled);
  return r;
}

JobRecord JobFrom(const json& j) {
  JobRecord r;
  r.spec = SpecFrom(j.at("spec"));
  Read(j, "body_digest", r.body_digest);
  ReadName(j, "state", r.state, ParseMigrationState);
  r.source = WorkerFrom(j.at("source"));
  r.destination = WorkerFrom(j.at("destination"));
  for (const json& a : j.at("attempts")) r.attempts.push_back(AttemptFrom(a));
  for (const json& e : j.at("events")) r.events.push_back(EventFrom(e));
  if (j.contains("outcome") && !j.at("outcome").is_null()) r.outcome = OutcomeFrom(j.at("outcome"));
  Read(j, "in_doubt", r.in_doubt);
  Read(j, "cancelled", r.cancelled);
  r.accepted_at = TimeFrom(j, "accepted_at");
  r.updated_at = TimeFrom(j, "updated_at");
  return r;
}

absl::Status Corrupt(std::string_view what, std::string_view why) {
  return MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE", fmt::format("{} cannot be read: {}", what, why));
}

// Parses, checks the format number, converts; every exception of nlohmann's becomes DATA_LOSS.
template <typename Record, typename Convert>
absl::StatusOr<Record> Guarded(std::string_view text, std::string_view what, Convert convert) {
  json j = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (j.is_discarded() || !j.is_object()) return Corrupt(what, "not a JSON object");
  try {
    int format = j.at("format").get<int>();
    if (format < 1 || format > kRecordFormat) {
      return Corrupt(what, fmt::format("format {} is not one this version reads (1 to {})", format, kRecordFormat));
    }
    return convert(j);
  } catch (const std::exception& e) {
    return Corrupt(what, e.what());
  }
}

std::string Dump(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string Serialise(const OwnerRecord& r) {
  json j = {{"format", kRecordFormat},
            {"request_id", r.request_id},
            {"owner", ToJson(r.owner)},
            {"epoch", r.epoch},
            {"start_index", r.start_index},
            {"open", r.open ? ToJson(*r.open) : json()},
            {"last_committed", r.last_committed},
            {"last_attempt", r.last_attempt},
            {"resumed", r.resumed},
            {"rolled_back", r.rolled_back},
            {"previous", ToJson(r.previous)},
            {"cancelled", r.cancelled}};
  return Dump(j);
}

std::string Serialise(const JobRecord& r) {
  json attempts = json::array();
  for (const AttemptRecord& a : r.attempts) attempts.push_back(ToJson(a));
  json events = json::array();
  for (const JobEvent& e : r.events) events.push_back(ToJson(e));
  json j = {{"format", kRecordFormat},
            {"spec", ToJson(r.spec)},
            {"body_digest", r.body_digest},
            {"state", Name(r.state)},
            {"source", ToJson(r.source)},
            {"destination", ToJson(r.destination)},
            {"attempts", std::move(attempts)},
            {"events", std::move(events)},
            {"outcome", r.outcome ? ToJson(*r.outcome) : json()},
            {"in_doubt", r.in_doubt},
            {"cancelled", r.cancelled},
            {"accepted_at", TimeJson(r.accepted_at)},
            {"updated_at", TimeJson(r.updated_at)}};
  return Dump(j);
}

absl::StatusOr<OwnerRecord> ParseOwnerRecord(std::string_view text, std::string_view what) {
  return Guarded<OwnerRecord>(text, what, OwnerFrom);
}

absl::StatusOr<JobRecord> ParseJobRecord(std::string_view text, std::string_view what) {
  return Guarded<JobRecord>(text, what, JobFrom);
}

}  // namespace riskkv

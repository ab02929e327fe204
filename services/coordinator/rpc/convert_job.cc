// The numbers of modes, states and decisions are those of the protos (common/migration/states.h).
#include "services/coordinator/rpc/convert_job.h"

#include "common/net/status.h"

namespace riskkv::coordinator {
namespace {

v1::ModeCost ToProto(const ModeCost& cost) {
  v1::ModeCost out;
  out.set_mode(static_cast<v1::Mode>(cost.mode));
  out.set_possible(cost.possible);
  out.set_why_not(cost.why_not);
  out.set_total_seconds(cost.total_seconds);
  out.set_pause_seconds(cost.pause_seconds);
  out.set_bytes(cost.bytes);
  out.mutable_terms()->insert(cost.terms.begin(), cost.terms.end());
  return out;
}

struct DetailWriter {
  v1::MigrationEvent& out;
  void operator()(const std::monostate&) const {}
  void operator()(const Plan& v) const { *out.mutable_plan() = coordinator::ToProto(v); }
  void operator()(const RoundDone& v) const { *out.mutable_round() = riskkv::ToProto(v); }
  void operator()(const PausedAt& v) const { *out.mutable_paused() = riskkv::ToProto(v); }
  void operator()(const MoveStats& v) const { *out.mutable_stats() = riskkv::ToProto(v); }
  void operator()(const Fallback& v) const {
    out.mutable_fallback()->set_from(static_cast<v1::Mode>(v.from));
    out.mutable_fallback()->set_to(static_cast<v1::Mode>(v.to));
    *out.mutable_fallback()->mutable_why() = riskkv::ToProto(v.why);
  }
  void operator()(const Outcome& v) const { *out.mutable_outcome() = coordinator::ToProto(v); }
};

}  // namespace

JobSpec FromProto(const v1::MigrateRequest& r) {
  return {.migration_id = r.migration_id(),
          .request_id = r.request_id(),
          .expected_epoch = r.expected_epoch(),
          .source = r.source(),
          .destination = r.destination(),
          .mode = static_cast<Mode>(r.mode()),
          .allow_lossy = r.allow_lossy(),
          .predictor_set = r.predictor_set(),
          .profile = r.profile(),
          .max_pause_ms = r.max_pause_ms(),
          .deadline_ms = r.deadline_ms(),
          .on_failure = static_cast<OnFailure>(r.on_failure()),
          .reason = r.reason(),
          .must_move = r.must_move(),
          .allow_ungated = r.allow_ungated(),
          .traceparent = r.traceparent()};
}

v1::MigrateRequest ToProto(const JobSpec& s) {
  v1::MigrateRequest out;
  out.set_migration_id(s.migration_id);
  out.set_request_id(s.request_id);
  out.set_expected_epoch(s.expected_epoch);
  out.set_source(s.source);
  out.set_destination(s.destination);
  out.set_mode(static_cast<v1::Mode>(s.mode));
  out.set_allow_lossy(s.allow_lossy);
  out.set_predictor_set(s.predictor_set);
  out.set_profile(s.profile);
  out.set_max_pause_ms(s.max_pause_ms);
  out.set_deadline_ms(s.deadline_ms);
  out.set_on_failure(static_cast<v1::MigrateRequest::OnFailure>(s.on_failure));
  out.set_reason(s.reason);
  out.set_must_move(s.must_move);
  out.set_allow_ungated(s.allow_ungated);
  out.set_traceparent(s.traceparent);
  return out;
}

v1::Plan ToProto(const Plan& p) {
  v1::Plan out;
  out.set_chosen(static_cast<v1::Mode>(p.chosen));
  out.set_why(p.why);
  for (const ModeCost& cost : p.alternatives) *out.add_alternatives() = ToProto(cost);
  out.mutable_inputs()->insert(p.inputs.begin(), p.inputs.end());
  out.set_predictor_set(p.predictor_set);
  out.set_profile(p.profile);
  out.set_set_absent(p.set_absent);
  out.set_moves_per_set(p.moves_per_set);
  out.set_break_even_moves(p.break_even_moves);
  out.set_source(p.source);
  out.set_destination(p.destination);
  return out;
}

v1::Outcome ToProto(const Outcome& o) {
  v1::Outcome out;
  out.set_state(static_cast<v1::MigrationState>(o.state));
  out.set_mode(static_cast<v1::Mode>(o.mode));
  out.set_owner(o.owner);
  out.set_owner_address(o.owner_address);
  out.set_epoch(o.epoch);
  out.set_start_index(o.start_index);
  if (!o.error.ok()) *out.mutable_error() = riskkv::ToProto(o.error);
  *out.mutable_stats() = ToProto(o.stats);
  out.set_total_ms(o.total_ms);
  out.set_commit_ms(o.commit_ms);
  out.set_pause_ms(o.pause_ms);
  out.set_predicted_ms(o.predicted_ms);
  out.set_predictor_set(o.predictor_set);
  out.set_profile(o.profile);
  return out;
}

v1::MigrationEvent ToProto(const std::string& migration_id, const JobEvent& e) {
  v1::MigrationEvent out;
  out.set_migration_id(migration_id);
  out.set_seq(e.seq);
  out.set_state(static_cast<v1::MigrationState>(e.state));
  out.set_attempt(e.attempt);
  out.set_epoch(e.epoch);
  out.set_time(absl::FormatTime(absl::RFC3339_full, e.time, absl::UTCTimeZone()));
  out.set_elapsed_ms(e.elapsed_ms);
  std::visit(DetailWriter{out}, e.detail);
  return out;
}

v1::Migration ToProto(const JobRecord& job, absl::Time now) {
  v1::Migration out;
  out.set_migration_id(job.spec.migration_id);
  *out.mutable_request() = ToProto(job.spec);
  out.set_state(static_cast<v1::MigrationState>(job.state));
  out.set_source(job.source.id);
  out.set_destination(job.destination.id);
  out.set_attempts(static_cast<uint32_t>(job.attempts.size()));
  for (const JobEvent& event : job.events) *out.add_events() = ToProto(job.spec.migration_id, event);
  if (job.outcome) *out.mutable_outcome() = ToProto(*job.outcome);
  out.set_in_doubt(job.in_doubt);
  out.set_age_seconds(absl::ToDoubleSeconds(now - job.accepted_at));
  return out;
}

v1::DecisionReply ToProto(const DecisionReply& reply) {
  v1::DecisionReply out;
  out.set_decision(static_cast<v1::Decision>(reply.decision));
  out.set_epoch(reply.epoch);
  out.set_start_index(reply.start_index);
  out.set_owner(reply.owner.id);
  out.set_owner_address(reply.owner.for_clients());
  if (!reply.reason.ok()) *out.mutable_reason() = riskkv::ToProto(reply.reason);
  return out;
}

v1::DecideRequest ToProto(const DecideArgs& args) {
  v1::DecideRequest out;
  *out.mutable_fence() = ToProto(args.fence);
  switch (args.decision) {
    case Decision::kCommitted:
      out.set_decision(v1::DecideRequest::COMMITTED);
      break;
    case Decision::kResumed:
      out.set_decision(v1::DecideRequest::RESUMED);
      break;
    case Decision::kRolledBack:
      out.set_decision(v1::DecideRequest::ROLLED_BACK);
      break;
    default:
      out.set_decision(v1::DecideRequest::ABORTED);
  }
  out.set_new_epoch(args.new_epoch);
  out.set_start_index(args.start_index);
  out.set_owner_id(args.owner.id);
  out.set_owner_address(args.owner.for_clients());
  if (!args.reason.ok()) *out.mutable_reason() = riskkv::ToProto(args.reason);
  return out;
}

MoveEvent FromProto(const v1::MoveEvent& e) {
  MoveEvent event;
  event.state = static_cast<MigrationState>(e.state());
  switch (e.detail_case()) {
    case v1::MoveEvent::kRound:
      event.detail = riskkv::FromProto(e.round());
      break;
    case v1::MoveEvent::kPaused:
      event.detail = riskkv::FromProto(e.paused());
      break;
    case v1::MoveEvent::kPrepared:
      event.detail = FromProto(e.prepared());
      break;
    case v1::MoveEvent::kFailed: {
      absl::Status failed = riskkv::FromProto(e.failed());
      event.detail = failed.ok() ? MakeError(absl::StatusCode::kAborted, "INTERNAL_ERROR", "the source failed without a reason") : failed;
      break;
    }
    case v1::MoveEvent::kEnded:
      event.detail = RequestEnded{.output_tokens = e.ended().output_tokens()};
      break;
    default:
      break;
  }
  return event;
}

}  // namespace riskkv::coordinator

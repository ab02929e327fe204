#include "services/coordinator/core/job_runner.h"

#include <algorithm>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "fmt/format.h"
#include "services/coordinator/core/fallback.h"

namespace riskkv::coordinator {

void JobRunner::Run() {
  RISKKV_FAILPOINT("accepted", job_->id());
  if (absl::Status stop = StopReason(*job_); !stop.ok()) return Finish(MigrationState::kAborted, stop);
  // The world may have changed while the job waited for its turn.
  absl::StatusOr<Admitted> facts = admission_->Check(job_->spec());
  if (!facts.ok()) return Refused(facts.status());
  Proceed(*facts, Mode::kUnspecified);
}

void JobRunner::Refused(const absl::Status& why) {
  Finish(ReasonOf(why) == "REQUEST_FINISHED" ? MigrationState::kStayed : MigrationState::kFailed, why);
}

void JobRunner::Proceed(const Admitted& facts, Mode mode) {
  epoch_ = facts.owner.epoch;
  bool measure = job_->spec().mode == Mode::kAuto || job_->spec().mode == Mode::kUnspecified;
  PlanResult planned = core_.planner->Make(job_->spec(), facts.source, facts.destination, facts.request, measure);
  plan_ = planned.plan;
  core_.log->info("mig={} req={} {} -> {}: {} ({})", job_->id(), job_->spec().request_id, plan_.source, plan_.destination,
                  Name(plan_.chosen), plan_.why);
  job_->Emit(attempt_, MigrationState::kPlanned, epoch_, plan_);
  RISKKV_FAILPOINT("planned", job_->id());
  mode_ = mode == Mode::kUnspecified ? plan_.chosen : mode;
  if (mode_ == Mode::kStay) return Finish(MigrationState::kStayed, absl::OkStatus());
  RunAttempts(facts, planned);
}

void JobRunner::RunAttempts(const Admitted& facts, const PlanResult& planned) {
  do {
    result_ = RunAttempt(mode_, facts, planned);
    if (Settle(*result_, mode_)) return;
  } while (FallBack(result_->why));
}

bool JobRunner::FallBack(const absl::Status& why) {
  Mode next = NextMode(mode_, job_->spec().on_failure, why);
  if (next == Mode::kUnspecified) {
    Finish(MigrationState::kFailed, why);
    return false;
  }
  core_.log->warn("mig={} req={} {} failed, {} next: {}", job_->id(), job_->spec().request_id, Name(mode_), Name(next), why);
  ++attempt_;
  job_->Emit(attempt_, MigrationState::kPlanned, epoch_, Fallback{.from = mode_, .to = next, .why = why});
  if (next == Mode::kStay) {
    Finish(MigrationState::kStayed, why);
    return false;
  }
  mode_ = next;
  return true;
}

absl::Status JobRunner::PossibleNow(Mode mode, const PlanResult& planned) const {
  if (IsLossy(mode) && !planned.ProfileFor(mode)) return planned.NoProfileFor(mode);
  const ModeCost* cost = planned.plan.Find(mode);
  // A profile whose exact ends cover the request saves nothing but may be used all the same when FULL is impossible.
  if (cost == nullptr || cost->possible) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, "STATE_NOT_TRANSFERABLE",
                   fmt::format("{} is not possible: {}", Name(mode), cost->why_not));
}

AttemptResult JobRunner::RunAttempt(Mode mode, const Admitted& facts, const PlanResult& planned) {
  AttemptResult refused;
  refused.why = PossibleNow(mode, planned);
  if (!refused.why.ok()) return refused;
  predictor_set_.clear();
  profile_.clear();
  if (IsLossy(mode)) {
    const ProfileChoice& choice = *planned.ProfileFor(mode);
    predictor_set_ = choice.set.digest;
    profile_ = choice.profile.name;
    refused.why = PlaceSet(choice, facts.source, facts.destination);
    if (!refused.why.ok()) return refused;
  }
  AttemptRecord attempt;
  attempt.attempt = attempt_;
  attempt.mode = mode;
  attempt.predictor_set = predictor_set_;
  attempt.profile = profile_;
  attempt.epoch = epoch_;
  attempt.source = facts.source.name;
  attempt.destination = facts.destination.name;
  attempt.leader_term = core_.store->leader_term();
  AttemptResult result = AttemptRunner(core_, job_, attempt, facts.request, facts.source.fingerprint).Run();
  Learn(result, mode);
  return result;
}

absl::Status JobRunner::PlaceSet(const ProfileChoice& choice, const WorkerInfo& source, const WorkerInfo& destination) {
  if (!choice.source_holds) RETURN_IF_ERROR(WithContext(Fetch(choice, source), "source", "PLANNED"));
  if (!choice.destination_holds) RETURN_IF_ERROR(WithContext(Fetch(choice, destination), "destination", "PLANNED"));
  return absl::OkStatus();
}

absl::Status JobRunner::Fetch(const ProfileChoice& choice, const WorkerInfo& worker) {
  absl::Duration timeout = std::min(core_.options.set_timeout, job_->TimeLeft());
  absl::Status fetched = core_.api->FetchSet(worker.name, choice.set.digest, choice.holders, timeout);
  if (!fetched.ok()) {
    if (ReasonOf(fetched).empty()) fetched = MakeError(fetched.code(), "PREDICTOR_MISSING", std::string(fetched.message()));
    return Annotate(fetched, fmt::format("worker {} cannot get set {}", worker.name.id, choice.set.digest));
  }
  std::vector<SetInfo> sets = worker.sets;
  sets.push_back(choice.set);
  core_.registry->UpdateSets(worker.name, std::move(sets));
  return absl::OkStatus();
}

bool JobRunner::Settle(const AttemptResult& result, Mode mode) {
  switch (result.kind) {
    case AttemptResult::Kind::kResumed:
      Finish(MigrationState::kSucceeded, absl::OkStatus());
      return true;
    case AttemptResult::Kind::kEnded:
      Finish(MigrationState::kStayed, result.why);
      return true;
    case AttemptResult::Kind::kRolledBack:
    case AttemptResult::Kind::kLost:
      Finish(MigrationState::kFailed, result.why);
      return true;
    case AttemptResult::Kind::kStopped:
      return true;
    case AttemptResult::Kind::kClosed:
      break;
  }
  if (absl::Status stop = StopReason(*job_); !stop.ok()) {
    Finish(MigrationState::kAborted, stop);
    return true;
  }
  std::string reason = ReasonOf(result.why);
  if (reason == "CANCELLED_BY_CALLER" || reason == "DEADLINE_TOTAL") {
    Finish(MigrationState::kAborted, result.why);
    return true;
  }
  // Nobody goes on serving a request whose worker is gone.
  auto attempt = job_->Attempt(attempt_);
  if (attempt && core_.registry->PresenceOf(attempt->source) == Presence::kGone) {
    Finish(MigrationState::kFailed, result.why);
    return true;
  }
  return false;
}

void JobRunner::Learn(const AttemptResult& result, Mode mode) const {
  if (result.kind != AttemptResult::Kind::kResumed) return;
  const ModeCost* cost = plan_.Find(mode);
  if (cost != nullptr) core_.corrections->Observe(mode, cost->total_seconds, result.real_seconds);
  if (!result.stats || result.stats->transfer_seconds <= 0) return;
  // Workers report their transfers themselves; this is for one that does not.
  auto link = core_.links->Get(plan_.source, plan_.destination);
  if (!link || absl::ToDoubleSeconds(link->age) > result.real_seconds + 1) {
    core_.links->Observe(plan_.source, plan_.destination, result.stats->bytes_sent, result.stats->transfer_seconds, 0);
  }
}

Outcome JobRunner::MakeOutcome(MigrationState state, const absl::Status& why) const {
  JobRecord record = job_->Snapshot();
  Outcome outcome;
  outcome.state = state;
  outcome.mode = state == MigrationState::kStayed ? Mode::kStay : mode_;
  outcome.error = why;
  outcome.predictor_set = predictor_set_;
  outcome.profile = profile_;
  outcome.total_ms = job_->ElapsedMs();
  outcome.owner = record.source.id;
  outcome.owner_address = record.source.for_clients();
  outcome.epoch = epoch_ != 0 ? epoch_ : record.spec.expected_epoch;
  if (const AttemptRecord* last = record.last_attempt(); last != nullptr && last->new_epoch > 0) {
    const WorkerName& owner = last->decision == Decision::kRolledBack ? last->source : last->destination;
    outcome.owner = owner.id;
    outcome.owner_address = owner.for_clients();
    outcome.epoch = last->new_epoch;
    outcome.start_index = last->start_index;
    outcome.mode = last->mode;
    outcome.predictor_set = last->predictor_set;
    outcome.profile = last->profile;
  }
  if (const ModeCost* cost = plan_.Find(outcome.mode)) outcome.predicted_ms = cost->total_seconds * 1000;
  if (result_) {
    outcome.pause_ms = result_->pause_ms;
    outcome.commit_ms = result_->commit_ms;
    if (result_->stats) outcome.stats = *result_->stats;
  }
  return outcome;
}

void JobRunner::Finish(MigrationState state, const absl::Status& why) {
  Outcome outcome = MakeOutcome(state, why);
  Job::Change change;
  change.mutate = [&](JobRecord& record, const OwnerRecord&) {
    record.in_doubt = false;
    record.outcome = outcome;
    job_->Append(record, std::max<uint32_t>(attempt_, record.events.empty() ? 1 : record.events.back().attempt), state, outcome.epoch,
                 outcome);
  };
  if (state == MigrationState::kSucceeded && !outcome.predictor_set.empty()) {
    change.counters[SetMovesCounter(outcome.predictor_set)] = 1;
    change.counters[SetCellsCounter(outcome.predictor_set)] = std::max<int64_t>(outcome.stats.tokens_at_pause, 0);
  }
  for (;;) {
    absl::Status saved = job_->Save(*core_.store, change);
    if (saved.ok()) break;
    core_.log->error("mig={} cannot write the terminal record: {}", job_->id(), saved);
    if (job_->TimeLeft() <= absl::ZeroDuration()) job_->SetInDoubt(true);
    if (core_.Stopping()) return;
    job_->WaitChange(core_.options.store_retry);
  }
  core_.log->info("mig={} req={} {} mode={} owner={} epoch={} total={:.1f}ms pause={:.1f}ms {}", job_->id(), job_->spec().request_id,
                  Name(state), Name(outcome.mode), outcome.owner, outcome.epoch, outcome.total_ms, outcome.pause_ms, why);
}

}  // namespace riskkv::coordinator

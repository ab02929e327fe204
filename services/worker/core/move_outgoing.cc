#include "services/worker/core/move_outgoing.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "common/codec/int8_rows.h"
#include "fmt/format.h"
#include "services/worker/core/move_plan.h"
#include "services/worker/core/move_provenance.h"

namespace riskkv::worker {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(2);
constexpr absl::Duration kHoldStep = absl::Milliseconds(10);
// A pause that lasts so much longer than predicted is taken back while FINAL is not sent.
absl::Duration HardPause(absl::Duration max_pause) { return std::max(5 * max_pause, absl::Duration(absl::Seconds(1))); }

absl::Status Finished(const RequestSnapshot& s) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "REQUEST_FINISHED",
                   fmt::format("request {} ended with {} output tokens", s.id, s.log.size()));
}

}  // namespace

OutgoingMove::OutgoingMove(const OutgoingContext& context, const StartMoveParams& params)
    : context_(context), params_(params), began_(context.clock->Monotonic()) {}

absl::StatusOr<std::shared_ptr<OutgoingMove>> OutgoingMove::Create(const OutgoingContext& context, const StartMoveParams& params) {
  std::shared_ptr<OutgoingMove> move(new OutgoingMove(context, params));
  RETURN_IF_ERROR(context.manager->BeginMove(params.fence.request_id, params.fence.epoch));
  move->thread_ = std::thread([m = move.get()] { m->Run(); });
  return move;
}

OutgoingMove::~OutgoingMove() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    changed_.NotifyAll();
  }
  cancel_.Cancel();
  resolve_cancel_.Cancel();
  if (thread_.joinable()) thread_.join();
}

void OutgoingMove::Run() {
  absl::Status status = Prepare();
  if (status.ok()) status = Precopy();
  if (status.ok()) status = PauseAndCopy();
  if (status.ok()) {
    FinalAndFollow();
  } else {
    GiveUp(status);
  }
  Forget();
  done_ = true;
}

// Whoever still reads the events keeps the attempt, but not the copy of the request's log, nor the connection.
void OutgoingMove::Forget() {
  paused_ = {};
  sender_.reset();
  pacer_.reset();
  peer_.reset();
}

// Everything that can be refused without a byte on the wire.
absl::Status OutgoingMove::Prepare() {
  Emit(MoveState::kPrecopy, std::monostate{});
  ASSIGN_OR_RETURN(const RequestSnapshot snapshot, AwaitFirstToken());
  SendTerms terms;
  terms.fence = params_.fence;
  terms.max_batch_bytes = context_.max_batch_bytes;
  terms.no_progress = context_.no_progress;
  RETURN_IF_ERROR(ChoosePolicy(snapshot, terms));
  ASSIGN_OR_RETURN(peer_, context_.connect(params_.destination_address));
  policy_ = terms.policy;
  sender_ = std::make_unique<RoundSender>(std::move(terms), context_.manager, peer_.get(), &cancel_);
  PaceLimits limits;
  limits.max_pause = params_.max_pause;
  limits.max_rounds = params_.max_rounds;
  if (context_.commit_us != nullptr) limits.commit = absl::Microseconds(context_.commit_us->load());
  pacer_ = std::make_unique<Pacer>(limits);
  return absl::OkStatus();
}

absl::Status OutgoingMove::ChoosePolicy(const RequestSnapshot& snapshot, SendTerms& terms) {
  ShipPolicy& policy = terms.policy;
  policy.layout = context_.manager->facts().fingerprint.layout;
  policy.mode = params_.mode;
  policy.probe_tokens = params_.probe_tokens;
  policy.seed = ProbeSeed(params_.fence);
  policy.rebuilt = RebuiltRanges(snapshot.provenance);
  if (params_.mode == MoveMode::kFull || params_.mode == MoveMode::kReplay) return absl::OkStatus();
  if (!policy.lossy()) {
    return MakeError(absl::StatusCode::kUnimplemented, "BAD_ARGUMENT", fmt::format("mode {} is not implemented", MoveModeName(params_.mode)));
  }
  if (context_.predictors == nullptr) return MakeError(absl::StatusCode::kNotFound, "PREDICTOR_MISSING", "this worker holds no predictor sets");
  ASSIGN_OR_RETURN(const auto set, context_.predictors->Get(params_.predictor_set));
  if (params_.mode == MoveMode::kRisk) {
    ASSIGN_OR_RETURN(const Profile* profile, set->set->FindProfile(params_.profile));
    policy.ends = profile->ends;
    policy.omitted = profile->omitted_layers;
  } else {
    ASSIGN_OR_RETURN(policy.coded, OpenCodedMove(set, params_.profile));
    policy.ends = policy.coded->profile.ends;
  }
  RETURN_IF_ERROR(CheckSameProvenance(snapshot.provenance, params_.predictor_set, params_.profile));
  if (!HasBody(policy.ends, snapshot.n_kv) || (params_.mode == MoveMode::kRisk && policy.omitted.empty())) {
    context_.log->info("{} {} cells are no more than the ends of {}: moves FULL", LogPrefix(fence()), snapshot.n_kv, params_.profile);
    policy.mode = MoveMode::kFull;
    policy.omitted.clear();
    policy.coded = nullptr;
    return absl::OkStatus();
  }
  terms.predictor_set = params_.predictor_set;
  terms.profile = params_.profile;
  return absl::OkStatus();
}

absl::Status OutgoingMove::CheckGoing() const {
  MutexLock lock(mu_);
  if (stop_) return absl::UnavailableError("the worker is shutting down");
  if (decision_ && decision_->decision == Decision::kAborted) {
    return decision_->reason.ok() ? MakeError(absl::StatusCode::kAborted, "CANCELLED_BY_CALLER", "the attempt was closed") : decision_->reason;
  }
  if (context_.clock->Monotonic() - began_ > params_.deadline) {
    return MakeError(absl::StatusCode::kDeadlineExceeded, "DEADLINE_TOTAL",
                     fmt::format("the attempt did not end within {}", absl::FormatDuration(params_.deadline)));
  }
  return absl::OkStatus();
}

absl::StatusOr<RequestSnapshot> OutgoingMove::Look() {
  RETURN_IF_ERROR(CheckGoing());
  ASSIGN_OR_RETURN(RequestSnapshot snapshot, context_.manager->Get(fence().request_id));
  if (snapshot.state == RequestState::kFinished) return Finished(snapshot);
  return snapshot;
}

absl::StatusOr<RequestSnapshot> OutgoingMove::AwaitFirstToken() {
  for (;;) {
    ASSIGN_OR_RETURN(RequestSnapshot snapshot, Look());
    if (!snapshot.log.empty()) return snapshot;
    absl::SleepFor(kLook);
  }
}

int64_t OutgoingMove::BytesOf(int64_t cells) const {
  if (policy_.mode == MoveMode::kReplay) return cells * static_cast<int64_t>(sizeof(Token));
  // What is left at a pause is mostly the newest cells.
  if (policy_.mode == MoveMode::kCoded && policy_.coded->profile.int8_ends && cells > 0) return Int8Bytes(policy_.layout, cells);
  return cells * policy_.layout.bytes_per_token();
}

// With `body_only`, whole blocks of the body alone; otherwise everything there is.
absl::Status OutgoingMove::Round(bool body_only) {
  ASSIGN_OR_RETURN(const RequestSnapshot snapshot, Look());
  const int64_t body_end = BodyEnd(policy_, snapshot.n_kv);
  const int64_t upto = body_only ? body_end / kMoveBlockTokens * kMoveBlockTokens : snapshot.n_kv;
  const absl::Duration start = context_.clock->Monotonic();
  ASSIGN_OR_RETURN(RoundSample sample, sender_->Send(snapshot, upto, body_end, /*last=*/false));
  RISKKV_FAILPOINT("precopy", fence().migration_id);
  RETURN_IF_ERROR(sender_->Settle(sample));
  pacer_->Record(sample);
  if (sample.call > absl::ZeroDuration()) rtt_ = rtt_ == absl::ZeroDuration() ? sample.call : std::min(rtt_, sample.call);
  ASSIGN_OR_RETURN(const RequestSnapshot now, Look());
  Emit(MoveState::kPrecopy, RoundDone{static_cast<uint32_t>(pacer_->rounds()), sender_->frontier(), now.n_tokens(), sample.bytes,
                                      absl::ToDoubleSeconds(context_.clock->Monotonic() - start)});
  return absl::OkStatus();
}

absl::Status OutgoingMove::Precopy() {
  // The body first, block by block, while it is long: what is decoded meanwhile becomes body too.
  while (policy_.lossy() && pacer_->rounds_left()) {
    ASSIGN_OR_RETURN(const RequestSnapshot snapshot, Look());
    if (BodyEnd(policy_, snapshot.n_kv) - sender_->frontier() < kMoveBlockTokens) break;
    RETURN_IF_ERROR(Round(/*body_only=*/true));
  }
  if (params_.hold_for_tests > absl::ZeroDuration()) {
    if (!policy_.lossy()) RETURN_IF_ERROR(Round(/*body_only=*/false));
    RETURN_IF_ERROR(Hold());
  }
  for (;;) {
    RETURN_IF_ERROR(Round(/*body_only=*/false));
    ASSIGN_OR_RETURN(const RequestSnapshot snapshot, Look());
    switch (pacer_->Decide(Left(snapshot), BytesOf(Left(snapshot)))) {
      case Pacer::Next::kRound: break;
      case Pacer::Next::kPause: return absl::OkStatus();
      case Pacer::Next::kGiveUp: return pacer_->GaveUp();
    }
  }
}

// For tests: keeps the attempt in pre-copy, and its lease alive.
absl::Status OutgoingMove::Hold() {
  const absl::Duration until = context_.clock->Monotonic() + params_.hold_for_tests;
  while (context_.clock->Monotonic() < until) {
    RETURN_IF_ERROR(Look().status());
    RoundSample unused;
    RETURN_IF_ERROR(sender_->Settle(unused));
    absl::SleepFor(kHoldStep);
  }
  return absl::OkStatus();
}

absl::Status OutgoingMove::PauseAndCopy() {
  RETURN_IF_ERROR(CheckGoing());
  ASSIGN_OR_RETURN(paused_, context_.manager->Pause(fence().request_id));
  paused_at_ = context_.clock->Monotonic();
  precopy_ = paused_at_ - began_;
  context_.manager->AnnounceMoving(fence().request_id, {params_.destination_id, params_.address_for_clients(), fence().migration_id, 0, 0});
  const int64_t left = Left(paused_);
  Emit(MoveState::kPaused,
       PausedAt{paused_.n_tokens(), left, absl::ToDoubleMilliseconds(pacer_->PredictPause(left, BytesOf(left)))});
  RISKKV_FAILPOINT("paused", fence().migration_id);
  ASSIGN_OR_RETURN(const RoundSample sample, sender_->Send(paused_, paused_.n_kv, BodyEnd(policy_, paused_.n_kv), /*last=*/true));
  (void)sample;
  RETURN_IF_ERROR(CheckGoing());
  const absl::Duration paused_for = context_.clock->Monotonic() - paused_at_;
  if (paused_for > HardPause(params_.max_pause)) {
    return MakeError(absl::StatusCode::kDeadlineExceeded, "PAUSE_BUDGET",
                     fmt::format("the last {} cells took {}, the pause may take {}", left, absl::FormatDuration(paused_for),
                                 absl::FormatDuration(params_.max_pause)));
  }
  return absl::OkStatus();
}

// Before FINAL the source decides alone.
void OutgoingMove::GiveUp(absl::Status status) {
  {
    MutexLock lock(mu_);
    if (stop_) return;
  }
  auto snapshot = context_.manager->Get(fence().request_id);
  if (snapshot.ok() && snapshot->state == RequestState::kFinished) {
    if (peer_ != nullptr) peer_->Abort(fence(), status);
    context_.log->info("{} the request ended first", LogPrefix(fence()));
    Emit(MoveState::kStayed, RequestEnded{snapshot->finish, static_cast<int64_t>(snapshot->log.size())});
    Close(MoveState::kStayed, absl::OkStatus());
    return;
  }
  if (absl::Status resumed = context_.manager->ResumeHere(fence().request_id); !resumed.ok()) {
    context_.log->error("{} cannot go on after the attempt failed: {}", LogPrefix(fence()), resumed);
  }
  // Only now: telling the destination may take as long as the transport lets it.
  if (peer_ != nullptr) peer_->Abort(fence(), status);
  if (absl::Status going = CheckGoing(); !going.ok() && absl::IsCancelled(status)) status = going;
  status = WithContext(std::move(status), "source", MoveStateName(state()));
  context_.log->info("{} failed in {}, the request goes on here: {}", LogPrefix(fence()), MoveStateName(state()), status);
  Emit(MoveState::kFailed, status);
  Close(MoveState::kFailed, status);
}

void OutgoingMove::Emit(MoveState state, decltype(MoveEvent::detail) detail) {
  MutexLock lock(mu_);
  state_ = state;
  events_.push_back({state, context_.clock->Monotonic(), std::move(detail)});
  changed_.NotifyAll();
}

void OutgoingMove::Close(MoveState state, absl::Status error) {
  MutexLock lock(mu_);
  state_ = state;
  error_ = std::move(error);
  closed_ = true;
  changed_.NotifyAll();
}

MoveState OutgoingMove::state() const {
  MutexLock lock(mu_);
  return state_;
}

AttemptInfo OutgoingMove::Info() const {
  MutexLock lock(mu_);
  return {true, state_, error_};
}

absl::StatusOr<MoveEvent> OutgoingMove::Event(std::size_t number, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(mu_);
  while (number >= events_.size()) {
    if (closed_ || stop_) return absl::OutOfRangeError("the attempt has ended");
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("no event yet");
    changed_.WaitFor(mu_, absl::ToChronoNanoseconds(left));
  }
  return events_[number];
}

void OutgoingMove::Decide(const DecisionInfo& decision) {
  if (decision.decision == Decision::kOpen) return;
  bool early = false;
  {
    MutexLock lock(mu_);
    if (closed_) return;
    // Only COMMITTED is followed by anything.
    const bool last = decision.decision == Decision::kResumed || decision.decision == Decision::kRolledBack;
    if (decision_ && !(decision_->decision == Decision::kCommitted && last)) return;
    early = state_ < MoveState::kFinal;
    if (early && decision.decision != Decision::kAborted) {
      context_.log->error("{} {} before FINAL: ignored", LogPrefix(fence()), DecisionName(decision.decision));
      return;
    }
    decision_ = decision;
    changed_.NotifyAll();
  }
  if (early) cancel_.Cancel();
}

}  // namespace riskkv::worker

#include "services/worker/core/move_incoming.h"

#include <algorithm>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "fmt/format.h"
#include "services/worker/core/move_provenance.h"
#include "services/worker/core/request_checks.h"

namespace riskkv::worker {
namespace {

absl::Status Refuse(std::string_view reason, std::string message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason, message);
}

}  // namespace

absl::Status StagingBudget::Take(int64_t bytes) {
  const int64_t before = used_.fetch_add(bytes);
  if (before == 0 || before + bytes <= limit_) return absl::OkStatus();  // one round always fits
  used_ -= bytes;
  return MakeError(absl::StatusCode::kResourceExhausted, "STAGING_FULL",
                   fmt::format("{} bytes wanted, {} of {} are waiting to be appended", bytes, before, limit_));
}

IncomingMove::IncomingMove(const IncomingContext& context, const ReserveParams& params)
    : context_(context), fence_(params.fence), lease_(params.lease) {}

absl::StatusOr<std::shared_ptr<IncomingMove>> IncomingMove::Create(const IncomingContext& context, const ReserveParams& params) {
  std::shared_ptr<IncomingMove> move(new IncomingMove(context, params));
  RETURN_IF_ERROR(move->CheckReserve(params));
  move->cells_reserved_ = params.n_kv + params.growth + params.headroom;
  ASSIGN_OR_RETURN(move->reservation_, context.manager->Reserve(move->cells_reserved_));
  const ModelFacts& facts = context.manager->facts();
  {
    MutexLock lock(move->mu_);
    AttemptTerms& terms = move->terms_;
    terms.fingerprint = &facts.fingerprint;
    terms.n_vocab = facts.n_vocab;
    terms.mode = params.mode;
    terms.cells_reserved = move->cells_reserved_;
    if (move->set_ != nullptr) {
      terms.predictor_set = params.predictor_set;
      terms.profile = params.profile;
    }
    if (params.mode == MoveMode::kRisk) terms.rules = move->set_->set->FindProfile(params.profile).value();
    terms.coded = move->coded_;
    move->assembler_ = std::make_unique<BlockAssembler>(facts.fingerprint.layout, move->set_, terms.rules, terms.coded,
                                                        context.predictors == nullptr ? nullptr : context.predictors->backend());
    move->Renew();
  }
  move->thread_ = std::thread([m = move.get()] { m->Run(); });
  return move;
}

absl::Status IncomingMove::CheckReserve(const ReserveParams& params) {
  RETURN_IF_ERROR(CheckCompatible(params.fingerprint, context_.manager->facts().fingerprint));
  if (params.n_kv < 0 || params.growth < 0 || params.headroom < 0 || params.n_kv > INT32_MAX || params.growth > INT32_MAX ||
      params.headroom > INT32_MAX) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_RANGE",
                     fmt::format("{} cells, growth {}, headroom {}", params.n_kv, params.growth, params.headroom));
  }
  // What the request was admitted with on the source: another engine or version here may not know how to go on with it.
  if (absl::Status carried = CheckParams(context_.manager->engine(), params.params); !carried.ok()) {
    return Refuse("STATE_NOT_TRANSFERABLE", fmt::format("the request cannot go on here: {}", carried));
  }
  switch (params.mode) {
    case MoveMode::kFull:
    case MoveMode::kReplay: return absl::OkStatus();
    case MoveMode::kRisk:
    case MoveMode::kCoded: break;
    default:
      return MakeError(absl::StatusCode::kUnimplemented, "BAD_ARGUMENT",
                       fmt::format("mode {} is not implemented by this worker", MoveModeName(params.mode)));
  }
  if (context_.predictors == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, "PREDICTOR_MISSING", "this worker holds no predictor sets");
  }
  ASSIGN_OR_RETURN(set_, context_.predictors->Get(params.predictor_set));
  if (params.mode == MoveMode::kRisk) return set_->set->FindProfile(params.profile).status();
  ASSIGN_OR_RETURN(coded_, OpenCodedMove(set_, params.profile));
  return absl::OkStatus();
}

void IncomingMove::Renew() { lease_end_ = context_.clock->Monotonic() + lease_; }

absl::Status IncomingMove::Alive() const {
  if (!error_.ok()) return error_;
  if (stop_) return absl::UnavailableError("the worker is shutting down");
  return absl::OkStatus();
}

bool IncomingMove::IsRepeat(const RoundManifest& m) const {
  return m.round == terms_.round && m.round > 0 && m.frontier == terms_.frontier && m.final == terms_.final_declared &&
         (m.segments.empty() || m.segments.back().id == terms_.last_segment);
}

absl::StatusOr<RoundReply> IncomingMove::DeclareRound(const RoundManifest& manifest) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(Alive());
  Renew();
  if (IsRepeat(manifest)) return RoundReply{{}, context_.boot_id};
  if (state_ > MoveState::kPrecopy) return Refuse("MANIFEST_MISMATCH", "a round after FINAL");
  RETURN_IF_ERROR(CheckManifest(terms_, context_.limits, manifest));
  int64_t bytes = 0;
  for (const Segment& s : manifest.segments) bytes += s.bytes;
  RETURN_IF_ERROR(context_.staging->Take(bytes));
  state_ = MoveState::kPrecopy;
  Enqueue(manifest);
  changed_.NotifyAll();
  return RoundReply{{}, context_.boot_id};
}

void IncomingMove::Enqueue(const RoundManifest& m) {
  for (const Segment& s : m.segments) {
    segments_.emplace(s.id, SegmentBuffer(s));
    if (s.kind == SegmentKind::kCells) {
      work_.push_back({s.id, 0, s.range.end, s.bytes});
      if (s.rebuild || s.encoding != CellEncoding::kCanonical) rebuilt_ = AddProvenance(rebuilt_, {s.range, m.predictor_set, m.profile});
    } else {
      work_.back().probe = s.id;
      work_.back().staged += s.bytes;
    }
    terms_.last_segment = s.id;
  }
  if (!m.tokens.empty()) {
    history_.insert(history_.end(), m.tokens.begin(), m.tokens.end());
    work_.push_back({0, 0, m.frontier, 0});
  }
  terms_.frontier = m.frontier;
  terms_.round = m.round;
  terms_.final_declared = m.final;
}

absl::Status IncomingMove::Accept(const Frame& frame, PushReply& reply) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(Alive());
  Renew();
  if (frame.segment == 0 && frame.payload.empty()) return absl::OkStatus();
  auto it = segments_.find(frame.segment);
  if (it == segments_.end()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "MANIFEST_MISMATCH", fmt::format("segment {} was not declared", frame.segment));
  }
  SegmentBuffer& segment = it->second;
  const bool was_sealed = segment.sealed();
  absl::Status status = segment.Accept(frame);
  // Damage on the way concerns the frame alone; a segment that is not what was declared can never be sealed.
  if (ReasonOf(status) == "DIGEST") FailLocked(status);
  RETURN_IF_ERROR(status);
  reply.bytes += frame.length;
  CountLayers(segment.segment(), frame.offset, frame.length);
  if (segment.sealed() && !was_sealed) {
    reply.sealed.push_back(frame.segment);
    changed_.NotifyAll();
  }
  return absl::OkStatus();
}

void IncomingMove::CountLayers(const Segment& segment, int64_t offset, int64_t length) {
  if (segment.encoding != CellEncoding::kCanonical) return;  // its layers are interleaved
  const int64_t layer_bytes = segment.bytes / static_cast<int64_t>(segment.layers.size());
  for (int64_t at = offset; at < offset + length;) {
    const int64_t index = at / layer_bytes;
    const int64_t end = std::min(offset + length, (index + 1) * layer_bytes);
    LayerBytes& count = reply_.received[segment.layers[static_cast<std::size_t>(index)]];
    (segment.kind == SegmentKind::kCells ? count.cells : count.probe) += end - at;
    at = end;
  }
}

absl::StatusOr<int64_t> IncomingMove::Progress() {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(Alive());
  Renew();
  return applied_;
}

absl::Status IncomingMove::CheckFinal(const FinalRequest& r) const {
  const int64_t tokens = static_cast<int64_t>(r.prompt.size() + r.log.size());
  if (r.n_tokens != tokens || r.n_kv != tokens - 1 || r.log.empty()) {
    return Refuse("MANIFEST_MISMATCH", fmt::format("final of {} tokens and {} cells carries {} prompt and {} output tokens", r.n_tokens,
                                                   r.n_kv, r.prompt.size(), r.log.size()));
  }
  if (r.n_kv != terms_.frontier) {
    return Refuse("MANIFEST_MISMATCH", fmt::format("final of {} cells, the frontier is {}", r.n_kv, terms_.frontier));
  }
  for (std::size_t i = 0; i < r.log.size(); ++i) {
    if (r.log[i].index != static_cast<int64_t>(i)) return Refuse("MANIFEST_MISMATCH", fmt::format("log entry {} has index {}", i, r.log[i].index));
  }
  for (const Work& work : work_) {
    if (!Ready(work)) return Refuse("MANIFEST_MISMATCH", fmt::format("final before the bytes of cells up to {} are there", work.upto));
  }
  for (std::size_t i = 0; i < history_.size(); ++i) {
    const Token token = i < r.prompt.size() ? r.prompt[i] : r.log[i - r.prompt.size()].token;
    if (token != history_[i]) return Refuse("MANIFEST_MISMATCH", fmt::format("token {} is {}, was replayed as {}", i, token, history_[i]));
  }
  RETURN_IF_ERROR(CheckProvenance(r.provenance, r.n_kv));
  if (std::string digest = TokensDigest(r.prompt, r.log); digest != r.digest) {
    return MakeError(absl::StatusCode::kDataLoss, "DIGEST", fmt::format("tokens have SHA-256 {}, final says {}", digest, r.digest));
  }
  return absl::OkStatus();
}

absl::StatusOr<FinalReply> IncomingMove::Final(const FinalRequest& request) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(Alive());
  if (state_ <= MoveState::kPrecopy) {
    if (absl::Status status = CheckFinal(request); !status.ok()) {
      FailLocked(status);
      return status;
    }
    final_ = request;
    state_ = MoveState::kFinal;  // from here the lease does not act
    changed_.NotifyAll();
  }
  while (error_.ok() && !stop_ && state_ < MoveState::kPrepared) changed_.Wait(mu_);
  RETURN_IF_ERROR(Alive());
  return reply_;
}

void IncomingMove::Abort(const absl::Status& reason) {
  MutexLock lock(mu_);
  // Having sent FINAL the source may not give up alone: a late or forged abort is ignored.
  if (state_ < MoveState::kFinal) {
    FailLocked(MakeError(absl::StatusCode::kAborted, "CANCELLED_BY_PEER", fmt::format("the source gave up: {}", reason)));
  }
}

void IncomingMove::Decide(const DecisionInfo& decision) { Settle(decision); }

void IncomingMove::ExpireLease(absl::Duration now) {
  if (RISKKV_MUTANT("prepared cells freed by a lease") && state() == MoveState::kPrepared) {
    bool over = false;
    {
      MutexLock lock(mu_);
      over = now >= lease_end_;
    }
    if (over) context_.manager->Drop(fence_.request_id);
  }
  MutexLock lock(mu_);
  if (state_ >= MoveState::kFinal || now < lease_end_ || !error_.ok()) return;
  FailLocked(MakeError(absl::StatusCode::kDeadlineExceeded, "NO_PROGRESS",
                       fmt::format("nothing heard of the attempt for {}", absl::FormatDuration(lease_))));
}

void IncomingMove::Fail(absl::Status status) {
  MutexLock lock(mu_);
  FailLocked(std::move(status));
}

void IncomingMove::FailLocked(absl::Status status) {
  if (!error_.ok() || state_ >= MoveState::kPrepared) return;
  error_ = WithContext(std::move(status), "destination", MoveStateName(state_));
  context_.log->info("{} refused in {}: {}", LogPrefix(fence_), MoveStateName(state_), error_);
  changed_.NotifyAll();
}

AttemptInfo IncomingMove::Info() const {
  MutexLock lock(mu_);
  return {true, error_.ok() ? state_ : MoveState::kFailed, error_};
}

}  // namespace riskkv::worker

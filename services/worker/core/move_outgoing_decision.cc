// The source from FINAL on: it may no longer give up alone (protocol.md 2.6 to 2.10).
#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "fmt/format.h"
#include "services/worker/core/move_outgoing.h"

namespace riskkv::worker {
namespace {

constexpr absl::Duration kLateReply = absl::Milliseconds(200);
constexpr int64_t kLongestCommitUs = 100'000;

bool Ends(Decision decision) { return decision != Decision::kCommitted && decision != Decision::kOpen; }

}  // namespace

FinalRequest OutgoingMove::MakeFinal() const {
  FinalRequest request;
  request.fence = fence();
  request.n_tokens = paused_.n_tokens();
  request.n_kv = paused_.n_kv;
  request.params = paused_.params;
  request.prompt = paused_.prompt;
  request.log = paused_.log;
  request.provenance = paused_.provenance;
  request.digest = TokensDigest(paused_.prompt, paused_.log);
  return request;
}

// On a thread of its own: the decision may be told before, or instead of, the answer.
void OutgoingMove::SendFinal(FinalRequest request) {
  final_call_ = std::thread([this, request = std::move(request)] {
    absl::StatusOr<FinalReply> reply = peer_->Final(request, &cancel_);
    MutexLock lock(mu_);
    final_reply_ = std::move(reply);
    changed_.NotifyAll();
  });
}

void OutgoingMove::FinalAndFollow() {
  Emit(MoveState::kFinal, std::monostate{});
  RISKKV_FAILPOINT("final", fence().migration_id);
  SendFinal(MakeFinal());
  if (std::optional<DecisionInfo> decision = AwaitDecision(MoveState::kFinal)) Follow(*decision);
  EndFinalCall();
}

void OutgoingMove::EndFinalCall() {
  cancel_.Cancel();
  if (final_call_.joinable()) final_call_.join();
}

// The decision, or the destination's definite refusal as an abort; nothing when the worker shuts down. `settled` is what is known so far:
// with kCommitted, only RESUMED or ROLLED_BACK will do.
std::optional<DecisionInfo> OutgoingMove::AwaitDecision(MoveState settled) {
  absl::Duration every = context_.resolve_every;
  absl::Duration next_ask = context_.clock->Monotonic() + every;
  [[maybe_unused]] const absl::Duration started = context_.clock->Monotonic();  // a mutant's
  bool told = false;
  for (;;) {
    std::optional<FinalReply> prepared;
    {
      MutexLock lock(mu_);
      if (decision_ && (settled == MoveState::kFinal || Ends(decision_->decision))) return decision_;
      if (stop_) return std::nullopt;
      if (RISKKV_MUTANT("source resumes on a timeout") && context_.clock->Monotonic() - started > absl::Milliseconds(60)) {
        return DecisionInfo{Decision::kAborted};
      }
      if (settled == MoveState::kFinal && final_reply_ && !told) {
        told = true;
        if (final_reply_->ok()) {
          prepared = **final_reply_;
        } else if (IsDefiniteRefusal(final_reply_->status())) {
          return DecisionInfo{Decision::kAborted, 0, 0, "", "", final_reply_->status()};
        } else {
          context_.log->warn("{} in doubt after FINAL: {}", LogPrefix(fence()), final_reply_->status());
        }
      }
      if (!prepared && context_.clock->Monotonic() < next_ask) {
        changed_.WaitFor(mu_, absl::ToChronoNanoseconds(std::min(every, absl::Duration(absl::Milliseconds(50)))));
        continue;
      }
    }
    if (prepared) {
      ReportPrepared(*prepared);
      continue;
    }
    AskResolve();
    every = std::min(every * 1.5, context_.resolve_last);
    next_ask = context_.clock->Monotonic() + every;
  }
}

void OutgoingMove::AskResolve() {
  if (context_.authority == nullptr) return;
  auto decision = context_.authority->Resolve(fence(), /*give_up=*/false, /*destination=*/false, &resolve_cancel_);
  if (decision.ok() && RISKKV_MUTANT("not committed taken from a read") && decision->decision == Decision::kOpen) {
    decision->decision = Decision::kAborted;
  }
  if (decision.ok()) {
    Decide(*decision);
  } else {
    context_.log->debug("{} not resolved: {}", LogPrefix(fence()), decision.status());
  }
}

// The decision may overtake the answer, which carries the destination's numbers.
void OutgoingMove::AwaitFinalReply() {
  if (reported_) return;
  std::optional<FinalReply> reply;
  {
    const absl::Time until = absl::Now() + kLateReply;
    MutexLock lock(mu_);
    while (!final_reply_ && !stop_ && absl::Now() < until) changed_.WaitFor(mu_, std::chrono::milliseconds(10));
    if (final_reply_ && final_reply_->ok()) reply = **final_reply_;
  }
  ReportPrepared(reply.value_or(FinalReply{}));
}

void OutgoingMove::ReportPrepared(const FinalReply& reply) {
  reported_ = true;
  prepared_at_ = context_.clock->Monotonic();
  MoveStats s;
  s.bytes_sent = sender_->bytes_sent();
  s.bytes_full = paused_.n_kv * policy_.layout.bytes_per_token();
  s.tokens_at_pause = paused_.n_tokens();
  s.output_tokens = static_cast<int64_t>(paused_.log.size());
  s.precopy_ms = absl::ToDoubleMilliseconds(precopy_);
  s.final_ms = absl::ToDoubleMilliseconds(context_.clock->Monotonic() - paused_at_);
  s.rebuild_ms = reply.rebuild_ms;
  s.probe_error = reply.probe_error;
  s.tokens_rebuilt = reply.tokens_rebuilt;
  s.tokens_exact = reply.tokens_exact;
  s.replay_ms = reply.replay_ms;
  s.encode_ms = absl::ToDoubleMilliseconds(sender_->encode());
  s.decode_ms = reply.decode_ms;
  s.tokens_coded = reply.tokens_coded;
  s.rounds = pacer_->rounds();
  s.omitted_layers = policy_.omitted;
  s.transfer_seconds = absl::ToDoubleSeconds(sender_->transfer());
  Emit(MoveState::kPrepared, s);
}

void OutgoingMove::Follow(const DecisionInfo& d) {
  if (d.decision == Decision::kCommitted || d.decision == Decision::kResumed) {
    Commit(d);
    FreeOnceResumed();
    return;
  }
  // ABORTED, a definite refusal, or rolled back before the commit was known here.
  const uint64_t epoch = d.decision == Decision::kRolledBack ? d.epoch : 0;
  if (absl::Status status = context_.manager->ResumeHere(fence().request_id, epoch); !status.ok()) {
    context_.log->warn("{} {} but the request does not go on: {}", LogPrefix(fence()), DecisionName(d.decision), status);
  }
  absl::Status why = d.reason.ok() ? MakeError(absl::StatusCode::kAborted, "CANCELLED_BY_CALLER", "the attempt was closed") : d.reason;
  why = WithContext(std::move(why), "coordinator", MoveStateName(MoveState::kFinal));
  context_.log->info("{} {}, the request goes on here: {}", LogPrefix(fence()), DecisionName(d.decision), why);
  Emit(MoveState::kFailed, why);
  Close(MoveState::kAborted, why);
}

void OutgoingMove::Commit(const DecisionInfo& d) {
  const std::string owner = d.owner_address.empty() ? params_.address_for_clients() : d.owner_address;
  const std::string owner_id = d.owner_id.empty() ? params_.destination_id : d.owner_id;
  const absl::Status status = context_.manager->MarkMoved(fence().request_id, {owner_id, owner, fence().migration_id, d.epoch, d.start_index});
  if (!status.ok()) context_.log->error("{} COMMITTED, but cannot be marked as moved: {}", LogPrefix(fence()), status);
  context_.log->info("{} COMMITTED to {} epoch {} from index {}", LogPrefix(fence()), owner_id, d.epoch, d.start_index);
  if (reported_ && context_.commit_us != nullptr) {
    // Learnt as a moving average; the pause of the next move is predicted with it.
    const int64_t took = absl::ToInt64Microseconds(context_.clock->Monotonic() - prepared_at_);
    context_.commit_us->store((context_.commit_us->load() * 3 + std::min(took, kLongestCommitUs)) / 4);
  }
  if (RISKKV_MUTANT("source frees on COMMITTED")) context_.manager->FreeMoved(fence().request_id);
  AwaitFinalReply();
  EndFinalCall();
  Emit(MoveState::kCommitted, std::monostate{});
  Report();
}

void OutgoingMove::FreeOnceResumed() {
  const std::optional<DecisionInfo> decision = AwaitDecision(MoveState::kCommitted);
  if (!decision) return;
  if (decision->decision == Decision::kRolledBack) {
    if (absl::Status status = context_.manager->ResumeHere(fence().request_id, decision->epoch); !status.ok()) {
      context_.log->error("{} rolled back, but cannot go on: {}", LogPrefix(fence()), status);
      // It came back by another way since, under a later epoch: what its former self holds is of no use any more.
      context_.manager->FreeMoved(fence().request_id);
    }
    absl::Status why = WithContext(MakeError(absl::StatusCode::kAborted, "PEER_UNREACHABLE", "rolled back to the source"), "coordinator",
                                   MoveStateName(MoveState::kCommitted));
    Emit(MoveState::kFailed, why);
    Close(MoveState::kAborted, why);
    return;
  }
  context_.manager->FreeMoved(fence().request_id);
  context_.log->info("{} RESUMED, freed", LogPrefix(fence()));
  Emit(MoveState::kResumed, std::monostate{});
  Close(MoveState::kResumed, absl::OkStatus());
}

void OutgoingMove::Report() {
  if (!context_.report || sender_->bytes_sent() == 0) return;
  context_.report({params_.destination_id, sender_->bytes_sent(), absl::ToDoubleSeconds(sender_->transfer()), absl::ToDoubleSeconds(rtt_)});
}

}  // namespace riskkv::worker

#include "services/worker/core/request_runner.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "fmt/format.h"
#include "services/worker/core/request_checks.h"

namespace riskkv::worker {
namespace {

absl::Status EngineFailed(const RequestRecord& record, const absl::Status& status) {
  return MakeError(absl::StatusCode::kInternal, "ENGINE_FAILED",
                   fmt::format("request {}: the engine failed at token {}: {}", record.id, record.n_kv,
                               std::string_view(status.message().data(), status.message().size())));
}

}  // namespace

void RequestRunner::FreeCells(RequestRecord& record) {
  if (record.seq >= 0) engine_.CloseSequence(std::exchange(record.seq, -1));
  record.n_kv = 0;
  s_.ledger.Free(record.holding);
}

void RequestRunner::Finish(const RecordPtr& record, FinishReason reason, absl::Status error) {
  s_.Unschedule(record);
  FreeCells(*record);
  record->state = RequestState::kFinished;
  record->finish = reason;
  record->error = std::move(error);
  record->tail_text = record->text.TakeTail();
  record->ended_at = s_.clock->Monotonic();
  record->moving = record->pause_requested = false;
  record->candidate.reset();
  record->changed.NotifyAll();
}

void RequestRunner::ApplyCancels() {
  std::vector<RecordPtr> cancelled;
  auto collect = [&](const auto& list) {
    std::copy_if(list.begin(), list.end(), std::back_inserter(cancelled), [](const RecordPtr& r) { return r->cancel_requested; });
  };
  collect(s_.running);
  collect(s_.queue);
  for (const RecordPtr& r : cancelled) Finish(r, FinishReason::kCancelled);
}

void RequestRunner::AdmitQueued() {
  while (!s_.queue.empty()) {
    const RecordPtr r = s_.queue.front();
    // First come, first served: a small request does not overtake a large one that waits for cells.
    if (!s_.ledger.Take(CellsFor(engine_.facts(), r->n_prompt, r->params.stop), r->holding).ok()) return;
    absl::StatusOr<SeqId> seq = engine_.OpenSequence();
    if (!seq.ok()) {
      s_.ledger.Free(r->holding);
      if (absl::IsResourceExhausted(seq.status())) return;
      Finish(r, FinishReason::kError, EngineFailed(*r, seq.status()));
      continue;
    }
    s_.queue.pop_front();
    r->seq = *seq;
    r->state = RequestState::kPrefill;
    s_.running.push_back(r);
    r->changed.NotifyAll();
  }
}

int RequestRunner::PrefillChunk() const {
  const bool prefill = std::any_of(s_.running.begin(), s_.running.end(),
                                   [](const RecordPtr& r) { return r->state == RequestState::kPrefill; });
  return prefill && s_.AnyMove() ? s_.options.prefill_chunk_moving : s_.options.prefill_chunk;
}

bool RequestRunner::Turn() {
  const absl::Duration begin = s_.clock->Monotonic();
  Batch batch;
  {
    MutexLock lock(s_.mu);
    ExpireTimers(begin);
    ApplyCancels();
    AdmitQueued();
    batch = ComposeBatch(s_.running, engine_.limits().max_batch, PrefillChunk(), steps_);
  }
  bool stepped = false;
  if (!batch.empty()) {
    stepped = Execute(batch);
    ++steps_;
  }
  const absl::Duration end = s_.clock->Monotonic();
  MutexLock lock(s_.mu);
  const bool worked = !batch.empty();
  s_.costs.Turn(worked ? end - begin : absl::ZeroDuration(), worked ? begin - last_turn_end_ : end - last_turn_end_);
  last_turn_end_ = end;
  NoteProgress(stepped || !worked, end);
  return worked;
}

void RequestRunner::NoteProgress(bool stepped, absl::Duration now) {
  if (stepped) s_.loop_ok = now;
  const bool changed = std::exchange(pool_changes_, s_.ledger.changes()) != pool_changes_;
  if (changed || s_.queue.empty() || !s_.running.empty()) s_.pool_ok = now;
}

bool RequestRunner::Execute(std::span<const BatchEntry> batch) {
  const absl::Duration begin = s_.clock->Monotonic();
  const std::vector<StepItem> items = ToItems(batch);
  const absl::StatusOr<std::vector<Sampled>> result = engine_.Step(items);
  if (result.ok()) {
    Apply(batch, *result, s_.clock->Monotonic() - begin);
    return true;
  }
  if (absl::IsCancelled(result.status())) return false;  // the same step is made again, unless the loop ends
  if (batch.size() == 1) {
    MutexLock lock(s_.mu);
    Finish(batch[0].record, FinishReason::kError, EngineFailed(*batch[0].record, result.status()));
    return true;
  }
  bool any = false;
  for (std::size_t i = 0; i < batch.size(); ++i) any = Execute(batch.subspan(i, 1)) || any;
  return any;
}

void RequestRunner::Apply(std::span<const BatchEntry> batch, std::span<const Sampled> sampled, absl::Duration took) {
  MutexLock lock(s_.mu);
  Record(batch, took);
  std::size_t next = 0;
  for (const BatchEntry& entry : batch) {
    entry.record->n_kv += entry.tokens;
    if (entry.sample) AppendToken(entry.record, sampled[next++]);
  }
}

// Only steps of one kind say what that kind costs.
void RequestRunner::Record(std::span<const BatchEntry> batch, absl::Duration took) {
  int64_t context = 0;
  for (const BatchEntry& entry : batch) {
    if (entry.tokens > 1) {
      if (batch.size() == 1) s_.costs.Prefill(entry.record->n_kv, entry.tokens, took);
      return;
    }
    context += entry.record->n_kv + 1;
  }
  s_.costs.Decode(context, took);
}

void RequestRunner::AppendToken(const RecordPtr& record, const Sampled& sampled) {
  RequestRecord& r = *record;
  if (r.cancel_requested) return Finish(record, FinishReason::kCancelled);  // its stream has ended without this token
  LoggedToken token;
  token.index = static_cast<int64_t>(r.log.size());
  token.token = sampled.token;
  token.text = r.text.Push(sampled.token);
  token.logprob = sampled.logprob;
  for (const auto& [id, logprob] : sampled.top) token.top.push_back({id, engine_.TokenText(id, /*special=*/true), logprob});
  token.epoch = r.epoch;
  r.history.push_back(token.token);
  r.log.push_back(std::move(token));
  const FinishReason reason = StopReason(r, sampled);
  if (reason != FinishReason::kNone) return Finish(record, reason);
  r.state = RequestState::kDecoding;
  if (r.pause_requested) {
    r.state = RequestState::kPaused;
    s_.Unschedule(record);
  }
  r.changed.NotifyAll();
}

FinishReason RequestRunner::StopReason(const RequestRecord& r, const Sampled& sampled) const {
  if (r.text.stopped() || sampled.end_of_generation) return FinishReason::kStop;
  if (static_cast<int64_t>(r.log.size()) >= r.params.stop.max_tokens) return FinishReason::kLength;
  if (r.n_tokens() >= ContextLength(engine_.facts())) return FinishReason::kLength;
  return FinishReason::kNone;
}

}  // namespace riskkv::worker

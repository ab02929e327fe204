// The manager at the destination of a move.
#include <algorithm>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "services/worker/core/request_checks.h"
#include "services/worker/core/request_manager_impl.h"

namespace riskkv::worker {

absl::StatusOr<Reservation*> RequestManagerImpl::FindReservation(ReservationId reservation) {
  auto it = s_->reservations.find(reservation.value);
  if (it != s_->reservations.end()) return &it->second;
  return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_ATTEMPT", fmt::format("reservation {} is not held", reservation.value));
}

absl::StatusOr<SeqId> RequestManagerImpl::GrowReservation(ReservationId reservation, int64_t upto) {
  ASSIGN_OR_RETURN(Reservation* const held, FindReservation(reservation));
  RETURN_IF_ERROR(s_->ledger.Grow(upto, held->holding));
  return held->seq;
}

absl::StatusOr<ReservationId> RequestManagerImpl::Reserve(int64_t cells) {
  if (cells < 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT", fmt::format("{} cells cannot be reserved", cells));
  }
  return loop_.Call([&] { return ReserveNow(cells); });
}

absl::StatusOr<ReservationId> RequestManagerImpl::ReserveNow(int64_t cells) {
  MutexLock lock(s_->mu);
  Reservation held;
  RETURN_IF_ERROR(s_->ledger.Take(cells, held.holding));
  absl::StatusOr<SeqId> seq = engine_->OpenSequence();
  if (!seq.ok()) {
    s_->ledger.Free(held.holding);
    return seq.status();
  }
  held.seq = *seq;
  const uint64_t id = ++s_->last_reservation;
  s_->reservations[id] = held;
  return ReservationId{id};
}

absl::Status RequestManagerImpl::Append(ReservationId reservation, const KvBlock& block) {
  return loop_.Call([&] { return AppendNow(reservation, block); });
}

absl::Status RequestManagerImpl::AppendNow(ReservationId reservation, const KvBlock& block) {
  SeqId seq = -1;
  {
    MutexLock lock(s_->mu);
    ASSIGN_OR_RETURN(seq, GrowReservation(reservation, block.range.end));
  }
  const absl::Duration begin = s_->clock->Monotonic();
  RETURN_IF_ERROR(engine_->Append(seq, block));
  const absl::Duration took = s_->clock->Monotonic() - begin;
  MutexLock lock(s_->mu);
  s_->costs.Append(block.range.size(), took);
  s_->reservations[reservation.value].length = engine_->Length(seq);
  return absl::OkStatus();
}

absl::Status RequestManagerImpl::Prefill(ReservationId reservation, const std::vector<Token>& history, int64_t upto) {
  if (upto < 0 || upto > static_cast<int64_t>(history.size())) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_RANGE",
                     fmt::format("cells up to {} wanted of {} tokens", upto, history.size()));
  }
  for (;;) {
    ASSIGN_OR_RETURN(const bool done, loop_.Call([&] { return PrefillNow(reservation, history, upto); }));
    if (done) return absl::OkStatus();
  }
}

absl::StatusOr<bool> RequestManagerImpl::PrefillNow(ReservationId reservation, const std::vector<Token>& history, int64_t upto) {
  StepItem item;
  {
    MutexLock lock(s_->mu);
    ASSIGN_OR_RETURN(item.seq, GrowReservation(reservation, upto));
    item.n_past = s_->reservations[reservation.value].length;
    if (item.n_past >= upto) return true;
    const int chunk = s_->running.empty() ? s_->options.prefill_chunk : s_->options.prefill_chunk_moving;
    const int64_t n = std::min<int64_t>({chunk, limits().max_batch, upto - item.n_past});
    item.tokens = std::span(history).subspan(static_cast<std::size_t>(item.n_past), static_cast<std::size_t>(n));
  }
  const int64_t n = static_cast<int64_t>(item.tokens.size());
  const absl::Duration begin = s_->clock->Monotonic();
  RETURN_IF_ERROR(engine_->Step({&item, 1}).status());
  const absl::Duration took = s_->clock->Monotonic() - begin;
  MutexLock lock(s_->mu);
  s_->costs.Prefill(item.n_past, n, took);
  s_->reservations[reservation.value].length += n;
  return item.n_past + n == upto;
}

int64_t RequestManagerImpl::ReservedLength(ReservationId reservation) const {
  MutexLock lock(s_->mu);
  auto it = s_->reservations.find(reservation.value);
  return it == s_->reservations.end() ? 0 : it->second.length;
}

RecordPtr RequestManagerImpl::MakeIncoming(IncomingRequest& request) const {
  auto r = std::make_shared<RequestRecord>(std::move(request.id), std::move(request.params), std::move(request.prompt),
                                           engine_.get());
  for (const LoggedToken& token : request.log) {
    r->history.push_back(token.token);
    r->text.Push(token.token);  // what is held back is rebuilt by replay
    r->epoch = std::max(r->epoch, token.epoch);
  }
  r->log = std::move(request.log);
  r->provenance = std::move(request.provenance);
  r->state = RequestState::kIncoming;
  r->deliver = false;
  return r;
}

absl::Status RequestManagerImpl::Install(ReservationId reservation, IncomingRequest request) {
  RETURN_IF_ERROR(CheckIncoming(*engine_, request));
  return loop_.Call([&] { return InstallNow(reservation, request); });
}

absl::Status RequestManagerImpl::InstallNow(ReservationId reservation, IncomingRequest& request) {
  RecordPtr r = MakeIncoming(request);
  MutexLock lock(s_->mu);
  ASSIGN_OR_RETURN(Reservation* const held, FindReservation(reservation));
  const RecordPtr old = s_->Find(r->id);
  if (old && old->state != RequestState::kMoved) {
    return MakeError(absl::StatusCode::kAlreadyExists, "ALREADY_MIGRATING",
                     fmt::format("request {} is here already: it is {}", r->id, StateName(old->state)));
  }
  if (held->length != r->n_tokens() - 1) {
    return MakeError(absl::StatusCode::kInvalidArgument, "MANIFEST_MISMATCH",
                     fmt::format("request {} has {} tokens and needs {} cells, {} are there", r->id, r->n_tokens(),
                                 r->n_tokens() - 1, held->length));
  }
  RETURN_IF_ERROR(s_->ledger.Grow(CellsFor(facts(), r->n_prompt, r->params.stop), held->holding));
  r->seq = held->seq;
  r->n_kv = held->length;
  r->holding = held->holding;
  r->displaced = old;
  r->created = r->detached_since = s_->clock->Monotonic();
  s_->reservations.erase(reservation.value);
  s_->records[r->id] = r;
  return absl::OkStatus();
}

absl::Status RequestManagerImpl::Activate(const std::string& id, uint64_t epoch, int64_t start_index) {
  {
    MutexLock lock(s_->mu);
    ASSIGN_OR_RETURN(const RecordPtr r, s_->Get(id));
    if (r->state != RequestState::kIncoming) {
      if (r->epoch == epoch && r->start_index == start_index && r->state != RequestState::kMoved) return absl::OkStatus();
      return MakeError(absl::StatusCode::kFailedPrecondition, "EPOCH_CONFLICT",
                       fmt::format("request {} is {} under epoch {}, not incoming for epoch {}", id, StateName(r->state),
                                   r->epoch, epoch));
    }
    if (start_index != static_cast<int64_t>(r->log.size())) {
      return MakeError(absl::StatusCode::kInvalidArgument, "BAD_RANGE",
                       fmt::format("request {} cannot start at index {}: its log has {} tokens", id, start_index, r->log.size()));
    }
    r->epoch = epoch;
    r->start_index = start_index;
    r->state = RequestState::kDecoding;
    s_->running.push_back(r);
    r->changed.NotifyAll();
  }
  loop_.Wake();
  return absl::OkStatus();
}

absl::Status RequestManagerImpl::AllowDelivery(const std::string& id) {
  MutexLock lock(s_->mu);
  ASSIGN_OR_RETURN(const RecordPtr r, s_->Get(id));
  if (r->deliver) return absl::OkStatus();
  if (r->state == RequestState::kIncoming || r->state == RequestState::kMoved) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "NOT_OWNER",
                     fmt::format("request {} is {}: it is not owned here", id, StateName(r->state)));
  }
  r->deliver = true;
  if (r->displaced && Freed(*r->displaced)) r->displaced.reset();
  if (!r->attached) r->detached_since = s_->clock->Monotonic();
  if (r->finished()) r->ended_at = s_->clock->Monotonic();
  r->changed.NotifyAll();
  return absl::OkStatus();
}

void RequestManagerImpl::Drop(const std::string& id, const MoveTarget* owner) {
  loop_.Run([&] { DropNow(id, owner); }).IgnoreError();  // a loop that has ended has freed it
}

void RequestManagerImpl::DropNow(const std::string& id, const MoveTarget* owner) {
  MutexLock lock(s_->mu);
  const RecordPtr r = s_->Find(id);
  // Only what is on its way in: RESUMED and the roll-back exclude each other, and a drop may be told twice.
  if (!r || r->deliver || r->state == RequestState::kMoved) return;
  s_->Unschedule(r);
  runner_.FreeCells(*r);
  r->ended_at = s_->clock->Monotonic();
  if (owner != nullptr) {
    r->state = RequestState::kMoved;
    r->moved_to = *owner;
    r->ForgetTokens();
  } else {
    r->dropped = true;
    s_->records.erase(id);
    if (r->displaced) s_->records[id] = r->displaced;
  }
  r->changed.NotifyAll();
}

void RequestManagerImpl::Release(ReservationId reservation) {
  loop_
      .Run([&] {
        MutexLock lock(s_->mu);
        auto it = s_->reservations.find(reservation.value);
        if (it == s_->reservations.end()) return;
        engine_->CloseSequence(it->second.seq);
        s_->ledger.Free(it->second.holding);
        s_->reservations.erase(it);
      })
      .IgnoreError();
}

}  // namespace riskkv::worker

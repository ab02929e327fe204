// The manager at the source of a move.
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "services/worker/core/request_manager_impl.h"

namespace riskkv::worker {
namespace {

absl::Status Refuse(std::string_view reason, std::string message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason, message);
}

// Whether the request may begin a move.
absl::Status CheckMovable(const RequestRecord& r, uint64_t expected_epoch) {
  if (r.finished()) return RequestFinished(r);
  if (r.state == RequestState::kMoved || r.state == RequestState::kIncoming) {
    return Refuse("NOT_OWNER", fmt::format("request {} is not owned here: it is {}", r.id, StateName(r.state)));
  }
  if (r.epoch != expected_epoch) {
    return MakeError(absl::StatusCode::kAborted, "EPOCH_CONFLICT",
                     fmt::format("request {} has epoch {}, the caller expects {}", r.id, r.epoch, expected_epoch));
  }
  if (r.moving || !r.deliver) return Refuse("ALREADY_MIGRATING", fmt::format("request {} is being moved already", r.id));
  if (r.state == RequestState::kQueued) {
    return Refuse("STATE_NOT_TRANSFERABLE", fmt::format("request {} is queued: it has no cells to move yet", r.id));
  }
  return absl::OkStatus();
}

absl::Status CheckCellsThere(const RequestRecord& r, TokenRange range) {
  if (r.finished()) return RequestFinished(r);
  if (r.seq < 0) return Refuse("NOT_OWNER", fmt::format("request {} is {} and holds no cells here", r.id, StateName(r.state)));
  if (range.begin >= 0 && range.begin <= range.end && range.end <= r.n_kv) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, "BAD_RANGE",
                   fmt::format("tokens [{}, {}) wanted of request {}, which has {} cells", range.begin, range.end, r.id, r.n_kv));
}

}  // namespace

absl::Status RequestManagerImpl::BeginMove(const std::string& id, uint64_t expected_epoch) {
  MutexLock lock(s_->mu);
  ASSIGN_OR_RETURN(const RecordPtr r, s_->Get(id));
  RETURN_IF_ERROR(CheckMovable(*r, expected_epoch));
  r->moving = true;
  return absl::OkStatus();
}

absl::StatusOr<KvBlock> RequestManagerImpl::Export(const std::string& id, TokenRange range, const std::vector<int>& layers) {
  return loop_.Call([&] { return ExportNow(id, range, layers); });
}

absl::StatusOr<KvBlock> RequestManagerImpl::ExportNow(const std::string& id, TokenRange range, const std::vector<int>& layers) {
  SeqId seq = -1;
  {
    MutexLock lock(s_->mu);
    ASSIGN_OR_RETURN(const RecordPtr r, s_->Get(id));
    RETURN_IF_ERROR(CheckCellsThere(*r, range));
    seq = r->seq;  // stays open: only this thread closes it
  }
  const absl::Duration begin = s_->clock->Monotonic();
  ASSIGN_OR_RETURN(KvBlock block, engine_->Export(seq, range, layers));
  const absl::Duration took = s_->clock->Monotonic() - begin;
  MutexLock lock(s_->mu);
  s_->costs.Export(range.size(), static_cast<double>(layers.size()) / facts().fingerprint.layout.n_layer, took);
  return block;
}

absl::StatusOr<RequestSnapshot> RequestManagerImpl::Pause(const std::string& id) {
  RecordPtr r;
  {
    MutexLock lock(s_->mu);
    ASSIGN_OR_RETURN(r, s_->Get(id));
  }
  const std::shared_ptr<ManagerState> state = s_;  // the wait may outlast the manager
  RETURN_IF_ERROR(loop_.Call([&] { return RequestPause(id); }));
  MutexLock lock(state->mu);
  while (r->running() && r->pause_requested) r->changed.Wait(state->mu);
  if (r->finished()) return r->error.ok() ? RequestFinished(*r) : Annotate(RequestFinished(*r), std::string(r->error.message().data(), r->error.message().size()));
  if (r->state != RequestState::kPaused) {
    return Refuse("ALREADY_MIGRATING", fmt::format("request {} is {}: the pause was taken back", id, StateName(r->state)));
  }
  return Snapshot(*r, state->clock->Monotonic(), /*with_log=*/true);
}

absl::Status RequestManagerImpl::RequestPause(const std::string& id) {
  MutexLock lock(s_->mu);
  ASSIGN_OR_RETURN(const RecordPtr r, s_->Get(id));
  if (r->finished()) return RequestFinished(*r);
  if (!r->moving) return Refuse("BAD_ARGUMENT", fmt::format("request {} is not being moved", id));
  if (r->state == RequestState::kPaused) return absl::OkStatus();
  if (!r->running()) return Refuse("NOT_OWNER", fmt::format("request {} is {}", id, StateName(r->state)));
  if (r->cancel_requested) {
    runner_.Finish(r, FinishReason::kCancelled);
    return RequestFinished(*r);
  }
  // Between two steps a request that has an output token stands at a token boundary. In prefill that comes with its first.
  r->pause_requested = true;
  if (!r->log.empty()) {
    r->state = RequestState::kPaused;
    s_->Unschedule(r);
    r->changed.NotifyAll();
  }
  return absl::OkStatus();
}

void RequestManagerImpl::AnnounceMoving(const std::string& id, const MoveTarget& candidate) {
  MutexLock lock(s_->mu);
  const RecordPtr r = s_->Find(id);
  if (!r || !r->moving) return;
  r->candidate = candidate;
  ++r->announcements;
  r->changed.NotifyAll();
}

void RequestManagerImpl::Reschedule(const RecordPtr& r, uint64_t epoch) {
  if (epoch > r->epoch) {
    r->epoch = epoch;
    r->start_index = static_cast<int64_t>(r->log.size());
  }
  r->moving = r->pause_requested = false;
  r->candidate.reset();
  r->moved_to = {};
  if (!r->attached) r->detached_since = s_->clock->Monotonic();
  if (!r->running()) {
    r->state = RequestState::kDecoding;
    s_->running.push_back(r);
  }
  r->changed.NotifyAll();
}

absl::Status RequestManagerImpl::ResumeHere(const std::string& id, uint64_t epoch) {
  {
    MutexLock lock(s_->mu);
    ASSIGN_OR_RETURN(const RecordPtr r, s_->Get(id));
    if (r->finished()) return RequestFinished(*r);
    const bool rolled_back = r->state == RequestState::kMoved && r->seq >= 0;
    if (!r->running() && r->state != RequestState::kPaused && !rolled_back) {
      return Refuse("NOT_OWNER", fmt::format("request {} cannot go on here: it is {}", id, StateName(r->state)));
    }
    if (epoch != 0 && epoch < r->epoch) {
      return MakeError(absl::StatusCode::kAborted, "EPOCH_CONFLICT",
                       fmt::format("request {} has epoch {}, cannot go on under {}", id, r->epoch, epoch));
    }
    Reschedule(r, epoch);
  }
  loop_.Wake();
  return absl::OkStatus();
}

absl::Status RequestManagerImpl::MarkMoved(const std::string& id, const MoveTarget& owner) {
  MutexLock lock(s_->mu);
  ASSIGN_OR_RETURN(const RecordPtr r, s_->Get(id));
  if (r->state == RequestState::kMoved && r->moved_to.epoch == owner.epoch) return absl::OkStatus();  // told twice
  if (r->state != RequestState::kPaused) {
    return Refuse("BAD_ARGUMENT", fmt::format("request {} is {}, not paused: it cannot have moved", id, StateName(r->state)));
  }
  r->state = RequestState::kMoved;
  r->moved_to = owner;
  r->moving = r->pause_requested = false;
  r->candidate.reset();
  r->ended_at = s_->clock->Monotonic();
  r->changed.NotifyAll();
  return absl::OkStatus();
}

void RequestManagerImpl::FreeMoved(const std::string& id) {
  loop_.Run([&] { FreeMovedNow(id); }).IgnoreError();  // a loop that has ended has freed it
}

void RequestManagerImpl::FreeMovedNow(const std::string& id) {
  MutexLock lock(s_->mu);
  // The request may be on its way back already, with its former self behind it.
  const RecordPtr newest = s_->Find(id);
  for (RecordPtr r = newest; r; r = r->displaced) {
    if (r->state == RequestState::kMoved && r->seq >= 0) {
      runner_.FreeCells(*r);
      r->ForgetTokens();
      r->ended_at = s_->clock->Monotonic();
      r->changed.NotifyAll();
    }
  }
  // Delivery was allowed before its former self was free.
  if (newest && newest->deliver && newest->displaced && Freed(*newest->displaced)) newest->displaced.reset();
}

}  // namespace riskkv::worker

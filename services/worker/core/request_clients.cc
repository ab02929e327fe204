// The manager's side of clients: admit, attach, cancel, acknowledge, look.
#include <algorithm>
#include <utility>

#include "common/base/ids.h"
#include "fmt/format.h"
#include "services/worker/core/request_checks.h"
#include "services/worker/core/request_manager_impl.h"
#include "services/worker/core/request_subscription.h"

namespace riskkv::worker {
namespace {

absl::Status NeverFits(int64_t n_prompt, int max_tokens, int64_t cells, int64_t total) {
  return MakeError(absl::StatusCode::kResourceExhausted, "NO_BLOCKS",
                   fmt::format("a prompt of {} tokens with stop.max_tokens {} needs {} KV cells, this worker has {} in all",
                               n_prompt, max_tokens, cells, total));
}

absl::Status NotOwner(const RequestRecord& r) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "NOT_OWNER", fmt::format("request {} is not owned here: it is on its way in", r.id));
}

}  // namespace

absl::StatusOr<std::string> RequestManagerImpl::Admit(RequestParams params, std::vector<Token> prompt) {
  RETURN_IF_ERROR(CheckParams(*engine_, params));
  RETURN_IF_ERROR(CheckPrompt(facts(), prompt));
  const int64_t n_prompt = static_cast<int64_t>(prompt.size());
  const int64_t cells = CellsFor(facts(), n_prompt, params.stop);
  const int max_tokens = params.stop.max_tokens;
  auto record = std::make_shared<RequestRecord>(NewRequestId(s_->options.boot_id), std::move(params), std::move(prompt),
                                                engine_.get());
  {
    MutexLock lock(s_->mu);
    if (s_->stopping) return MakeError(absl::StatusCode::kUnavailable, "NOT_READY", "the worker is stopping");
    if (cells > s_->ledger.cells_total()) return NeverFits(n_prompt, max_tokens, cells, s_->ledger.cells_total());
    if (s_->queue.size() >= static_cast<std::size_t>(s_->options.max_queue)) {
      return MakeError(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
                       fmt::format("{} requests wait, at most {}", s_->queue.size(), s_->options.max_queue));
    }
    record->created = record->detached_since = s_->clock->Monotonic();
    s_->records[record->id] = record;
    s_->queue.push_back(record);
  }
  loop_.Wake();
  return record->id;
}

absl::StatusOr<std::unique_ptr<Subscription>> RequestManagerImpl::Attach(const std::string& id, int64_t next_index,
                                                                         uint64_t min_epoch) {
  MutexLock lock(s_->mu);
  ASSIGN_OR_RETURN(const RecordPtr r, s_->Get(id));
  const bool moved = r->state == RequestState::kMoved;
  if (!moved && r->state != RequestState::kIncoming && r->epoch < min_epoch) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "STALE_FENCE",
                     fmt::format("request {} has epoch {} here, the client has seen {}", id, r->epoch, min_epoch));
  }
  const bool owned = !moved && r->state != RequestState::kIncoming;
  // It was recovered under this epoch without what the client took from the former owner since: two histories.
  if (owned && min_epoch > 0 && min_epoch < r->epoch && next_index > r->start_index) {
    return MakeError(absl::StatusCode::kAborted, "EPOCH_CONFLICT",
                     fmt::format("request {}: epoch {} starts at index {}, the client holds {} tokens of epoch {} and before", id, r->epoch,
                                 r->start_index, next_index, min_epoch));
  }
  const int64_t have = r->n_tokens() - r->n_prompt;
  if (next_index < 0 || (!moved && next_index > have)) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_RANGE",
                     fmt::format("next_index is {}, request {} has {} output tokens here", next_index, id, have));
  }
  return RequestSubscription::Open(s_, r, next_index);
}

absl::StatusOr<bool> RequestManagerImpl::Cancel(const std::string& id) {
  {
    MutexLock lock(s_->mu);
    ASSIGN_OR_RETURN(const RecordPtr r, s_->Get(id));
    if (r->finished()) return false;
    if (r->state == RequestState::kIncoming) return NotOwner(*r);
    r->cancel_requested = true;
    r->changed.NotifyAll();
  }
  loop_.Wake();
  return true;
}

absl::Status RequestManagerImpl::Acknowledge(const std::string& id) {
  MutexLock lock(s_->mu);
  ASSIGN_OR_RETURN(const RecordPtr r, s_->Get(id));
  if (r->state == RequestState::kMoved) return absl::OkStatus();  // forwarding stays for the retention
  if (r->cancel_requested && !r->finished()) {
    r->acknowledged = true;  // its stream has ended before it
    return absl::OkStatus();
  }
  if (!r->finished() || !r->deliver) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "BAD_ARGUMENT",
                     fmt::format("request {} has not ended: it is {}", id, StateName(r->state)));
  }
  s_->records.erase(id);
  return absl::OkStatus();
}

absl::StatusOr<RequestSnapshot> RequestManagerImpl::Get(const std::string& id) const {
  MutexLock lock(s_->mu);
  ASSIGN_OR_RETURN(const RecordPtr r, s_->Get(id));
  return Snapshot(*r, s_->clock->Monotonic(), /*with_log=*/true);
}

absl::StatusOr<RequestSnapshot> RequestManagerImpl::Look(const std::string& id) const {
  MutexLock lock(s_->mu);
  ASSIGN_OR_RETURN(const RecordPtr r, s_->Get(id));
  return Snapshot(*r, s_->clock->Monotonic(), /*with_log=*/false);
}

std::vector<RequestSnapshot> RequestManagerImpl::List(bool include_ended) const {
  std::vector<RequestSnapshot> all;
  {
    MutexLock lock(s_->mu);
    const absl::Duration now = s_->clock->Monotonic();
    for (const auto& [id, r] : s_->records) {
      const bool ended = r->finished() || r->state == RequestState::kMoved;
      if (include_ended || !ended) all.push_back(Snapshot(*r, now, /*with_log=*/false));
    }
  }
  std::sort(all.begin(), all.end(), [](const RequestSnapshot& a, const RequestSnapshot& b) {
    return a.age != b.age ? a.age > b.age : a.id < b.id;
  });
  return all;
}

}  // namespace riskkv::worker

// What happens to a request only because time passes.
#include <algorithm>

#include "services/worker/core/request_runner.h"

namespace riskkv::worker {
namespace {

constexpr absl::Duration kExpiryPeriod = absl::Milliseconds(50);

// Nobody reads it, and it is not in the hands of a move.
bool Abandoned(const RequestRecord& r, absl::Duration now, absl::Duration grace) {
  return (r.running() || r.state == RequestState::kQueued) && r.deliver && !r.attached && now - r.detached_since > grace;
}

// Kept only so that clients can still ask.
bool Ended(const RequestRecord& r) {
  return (r.finished() && r.deliver) || (r.state == RequestState::kMoved && Freed(r));
}

}  // namespace

bool Freed(const RequestRecord& record) {
  return record.seq < 0 && (!record.displaced || Freed(*record.displaced));
}

void RequestRunner::ExpireTimers(absl::Duration now) {
  if (now - last_expiry_ < kExpiryPeriod) return;
  last_expiry_ = now;
  std::vector<RecordPtr> abandoned, ended;
  for (const auto& [id, r] : s_.records) {
    if (Abandoned(*r, now, s_.options.detach_grace)) abandoned.push_back(r);
    if (Ended(*r)) ended.push_back(r);
  }
  for (const RecordPtr& r : abandoned) Finish(r, FinishReason::kCancelled);
  EvictEnded(std::move(ended));
}

void RequestRunner::EvictEnded(std::vector<RecordPtr> ended) {
  std::sort(ended.begin(), ended.end(), [](const RecordPtr& a, const RecordPtr& b) { return a->ended_at < b->ended_at; });
  const std::size_t limit = static_cast<std::size_t>(std::max(0, s_.options.max_ended));
  const std::size_t surplus = ended.size() > limit ? ended.size() - limit : 0;
  const absl::Duration now = last_expiry_;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    if (i < surplus || ended[i]->acknowledged || now - ended[i]->ended_at > s_.options.log_retention) s_.records.erase(ended[i]->id);
  }
}

}  // namespace riskkv::worker

#include "services/client/core/stream_merger.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::client {
namespace {

absl::Status ClientError(absl::StatusCode code, std::string_view reason, const std::string& message) {
  absl::Status status = MakeError(code, reason, message);
  return WithContext(status, "client", "");
}

bool SameWorker(const Target& a, const Target& b) {
  // A user's address for a worker may differ from the one it advertises, so the id decides where both are
  // known.
  if (!a.worker_id.empty() && !b.worker_id.empty()) return a.worker_id == b.worker_id;
  return a.address == b.address;
}

std::string NameOf(const Target& target) {
  if (target.worker_id.empty()) return target.address;
  return fmt::format("{} ({})", target.worker_id, target.address);
}

Verdict Fail(absl::Status error) { return {Action::kFail, {}, std::move(error)}; }

#define RETURN_FAILURE_IF_ERROR(expr)                                                  \
  do {                                                                                 \
    if (absl::Status failure = (expr); !failure.ok()) return Fail(std::move(failure)); \
  } while (false)

}  // namespace

StreamMerger::StreamMerger(int64_t next_index, uint64_t min_epoch)
    : first_index_(next_index), next_index_(next_index), epoch_(min_epoch) {}

void StreamMerger::OnSourceOpened(SourceId source, const Target& target) {
  for (auto it = sources_.begin(); it != sources_.end();) {
    it = SameWorker(it->second, target) ? sources_.erase(it) : std::next(it);
  }
  if (owner_.address.empty() && owner_.worker_id.empty()) owner_ = target;
  sources_[source] = target;
}

bool StreamMerger::IsOwner(SourceId source) const {
  auto it = sources_.find(source);
  return it != sources_.end() && SameWorker(it->second, owner_);
}

Verdict StreamMerger::OnEvent(SourceId source, const Event& event) {
  if (!Knows(source) || finished_) return {Action::kDrop};
  struct Visitor {
    StreamMerger* m;
    SourceId s;
    Verdict operator()(const TokenEvent& e) { return m->OnToken(s, e); }
    Verdict operator()(const StartedEvent& e) { return m->OnStarted(s, e); }
    Verdict operator()(const MovingEvent& e) { return m->OnMoving(s, e); }
    Verdict operator()(const MovedEvent& e) { return m->OnMoved(s, e); }
    Verdict operator()(const FinishedEvent& e) { return m->OnFinished(s, e); }
    Verdict operator()(const SupersededEvent&) { return m->OnSuperseded(s); }
    Verdict operator()(const BrokenEvent& e) { return m->OnBroken(s, e); }
  };
  return std::visit(Visitor{this, source}, event);
}

Verdict StreamMerger::OnToken(SourceId source, const TokenEvent& token) {
  Target& from = sources_[source];
  uint64_t epoch = token.epoch != 0 ? token.epoch : from.epoch;
  if (token.index >= EndOf(epoch)) {
    ++counters_.stale_dropped;
    return {Action::kDrop};
  }
  if (epoch > epoch_) {
    // The new owner was faster than the old one's Moved.
    Target owner = from;
    owner.epoch = epoch;
    BecomeOwner(owner);
  }
  if (token.index > next_index_) return Gap(source, token.index);
  if (token.index < next_index_) return Double(source, token, epoch);
  if (starts_.count(epoch) == 0) RETURN_FAILURE_IF_ERROR(LearnStart(epoch, token.index));
  held_.push_back({token.token, epoch});
  ++next_index_;
  return {Action::kDeliver};
}

Verdict StreamMerger::Double(SourceId source, const TokenEvent& token, uint64_t epoch) {
  if (token.index >= first_index_) {
    const Held& held = held_[token.index - first_index_];
    if (RISKKV_MUTANT("tokens deduplicated by epoch and index") && held.epoch != epoch) return {Action::kDeliver};
    if (held.token != token.token) {
      return Fail(ClientError(absl::StatusCode::kDataLoss, "MANIFEST_MISMATCH",
                              fmt::format("two histories of request {}: index {} was token {} of epoch {}, "
                                          "and is token {} of epoch {} at {}",
                                          request_id_, token.index, held.token, held.epoch, token.token,
                                          epoch, NameOf(sources_[source]))));
    }
  }
  ++counters_.doubles_dropped;
  return {Action::kDrop};
}

Verdict StreamMerger::OnStarted(SourceId source, const StartedEvent& started) {
  if (request_id_.empty()) request_id_ = started.request_id;
  Target& from = sources_[source];
  bool was_owner = IsOwner(source);
  from.worker_id = started.worker_id;
  from.epoch = started.epoch;
  if (started.epoch < epoch_) {
    ++counters_.lower_epochs_refused;
    return Useless(source,
                   ClientError(absl::StatusCode::kFailedPrecondition, "STALE_FENCE",
                               fmt::format("{} holds request {} at epoch {}, this client has seen epoch {}",
                                           NameOf(from), request_id_, started.epoch, epoch_)));
  }
  if (was_owner) owner_ = from;
  if (started.epoch > epoch_) BecomeOwner(from);
  return {Action::kNone};
}

Verdict StreamMerger::OnMoving(SourceId source, const MovingEvent& moving) {
  if (!IsOwner(source)) return {Action::kDrop};
  return {Action::kPreAttach, Target{moving.worker_id, moving.address}};
}

Verdict StreamMerger::OnMoved(SourceId source, const MovedEvent& moved) {
  bool news = moved.epoch > epoch_ || (moved.epoch == epoch_ && IsOwner(source));
  if (!news) {
    if (moved.epoch == epoch_) RETURN_FAILURE_IF_ERROR(LearnStart(moved.epoch, moved.next_index));
    return {Action::kDrop};
  }
  RETURN_FAILURE_IF_ERROR(LearnStart(moved.epoch, moved.next_index));
  BecomeOwner({moved.worker_id, moved.address, moved.epoch, moved.next_index});
  return {Action::kFollow, owner_};
}

Verdict StreamMerger::OnLocated(const Target& owner) {
  if (owner.epoch < epoch_) {
    ++counters_.lower_epochs_refused;
    return {Action::kDrop};
  }
  if (owner.epoch > epoch_ && owner.start_index > 0) {
    RETURN_FAILURE_IF_ERROR(LearnStart(owner.epoch, owner.start_index));
  }
  BecomeOwner(owner);
  return {Action::kFollow, owner_};
}

Verdict StreamMerger::OnFinished(SourceId source, const FinishedEvent& finished) {
  if (finished.epoch < epoch_ && !IsOwner(source)) {
    ++counters_.stale_dropped;
    return {Action::kDrop};
  }
  if (finished.reason == FinishReason::kError) {
    absl::Status error = finished.error;
    if (error.ok()) error = ClientError(absl::StatusCode::kInternal, "ENGINE_FAILED", "the request failed");
    return Fail(Annotate(error, fmt::format("request {} on {}", request_id_, NameOf(sources_[source]))));
  }
  // A cancelled one ends with what the client has: no index is asked of it.
  const bool counts = finished.reason != FinishReason::kCancelled;
  if (counts && finished.output_tokens > next_index_) return Gap(source, finished.output_tokens);
  if (counts && finished.output_tokens < next_index_) {
    return Fail(
        ClientError(absl::StatusCode::kDataLoss, "BAD_RANGE",
                    fmt::format("{} ended request {} with {} tokens, this client is at index {}",
                                NameOf(sources_[source]), request_id_, finished.output_tokens, next_index_)));
  }
  finished_ = true;
  end_ = finished;
  return {Action::kFinished};
}

Verdict StreamMerger::OnSuperseded(SourceId source) {
  if (!IsOwner(source)) return Useless(source, absl::OkStatus());
  return Fail(
      ClientError(absl::StatusCode::kAborted, "SUPERSEDED",
                  fmt::format("another client attached to request {} on {}", request_id_, NameOf(owner_))));
}

Verdict StreamMerger::OnBroken(SourceId source, const BrokenEvent& broken) {
  if (IsOwner(source)) ++counters_.broken_streams;
  absl::Status why = broken.status;
  if (why.ok())
    why = ClientError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE", "the stream ended without an end");
  return Useless(source, Annotate(why, NameOf(sources_[source])));
}

Verdict StreamMerger::Useless(SourceId source, absl::Status why) {
  Verdict verdict{IsOwner(source) ? Action::kReattach : Action::kCloseSource, sources_[source],
                  std::move(why)};
  sources_.erase(source);
  return verdict;
}

Verdict StreamMerger::Gap(SourceId source, int64_t got) {
  ++counters_.gaps_seen;
  return Useless(source, ClientError(absl::StatusCode::kDataLoss, "BAD_RANGE",
                                     fmt::format("gap in request {}: {} went on at index {}, expected {}",
                                                 request_id_, NameOf(sources_[source]), got, next_index_)));
}

int64_t StreamMerger::EndOf(uint64_t epoch) const {
  int64_t end = std::numeric_limits<int64_t>::max();
  for (auto it = starts_.upper_bound(epoch); it != starts_.end(); ++it) end = std::min(end, it->second);
  return end;
}

absl::Status StreamMerger::LearnStart(uint64_t epoch, int64_t start_index) {
  auto [it, inserted] = starts_.emplace(epoch, start_index);
  it->second = std::min(it->second, start_index);
  int64_t first = std::max(it->second, first_index_);
  if (first >= next_index_ || held_[first - first_index_].epoch >= epoch) return absl::OkStatus();
  return ClientError(
      absl::StatusCode::kDataLoss, "EPOCH_CONFLICT",
      fmt::format("request {}: epoch {} starts at index {}, but tokens up to {} of epoch {} were delivered",
                  request_id_, epoch, start_index, next_index_, held_[first - first_index_].epoch));
}

void StreamMerger::BecomeOwner(const Target& target) {
  if (!SameWorker(target, owner_)) ++counters_.owner_changes;
  owner_ = target;
  epoch_ = std::max(epoch_, target.epoch);
}

}  // namespace riskkv::client

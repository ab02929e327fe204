#include "services/worker/core/move_outgoing_table.h"

#include <utility>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::worker {
namespace {

absl::Status AtSource(absl::Status status) { return WithContext(std::move(status), "source", ""); }

absl::Status Stale(std::atomic<int64_t>& counter, std::string message) {
  ++counter;
  return MakeError(absl::StatusCode::kFailedPrecondition, "STALE_FENCE", message);
}

}  // namespace

OutgoingMoves::OutgoingMoves(OutgoingOptions options, RequestManager* manager, PredictorStore* predictors, DecisionAuthority* authority,
                             PeerFactory connect, const Clock* clock, Logger log, std::function<void(const TransferResult&)> report)
    : options_(std::move(options)) {
  context_.boot_id = options_.boot_id;
  context_.manager = manager;
  context_.predictors = predictors;
  context_.authority = authority;
  context_.connect = std::move(connect);
  context_.clock = clock;
  context_.log = std::move(log);
  context_.report = std::move(report);
  context_.resolve_every = options_.resolve_every;
  context_.resolve_last = options_.resolve_last;
  context_.no_progress = options_.no_progress;
  context_.max_batch_bytes = options_.max_batch_bytes;
  context_.commit_us = &commit_us_;
}

OutgoingMoves::~OutgoingMoves() {
  std::map<Key, std::shared_ptr<OutgoingMove>> moves;
  {
    MutexLock lock(mu_);
    moves.swap(moves_);
  }
  moves.clear();
}

absl::Status OutgoingMoves::CheckFence(const Fence& f) {
  if (f.migration_id.empty() || f.request_id.empty() || f.attempt == 0 || f.epoch == 0 || f.destination_boot_id.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
                     fmt::format("incomplete fence: migration '{}' attempt {} request '{}' epoch {} destination boot '{}'", f.migration_id,
                                 f.attempt, f.request_id, f.epoch, f.destination_boot_id));
  }
  if (f.source_boot_id != options_.boot_id) {
    ++stale_;
    return MakeError(absl::StatusCode::kFailedPrecondition, "BOOT_ID_CHANGED",
                     fmt::format("the attempt means boot {}, this is boot {}", f.source_boot_id, options_.boot_id));
  }
  if (f.leader_term < leader_term_) return Stale(stale_, fmt::format("leader term {}, {} was seen", f.leader_term, leader_term_));
  const Key key{f.migration_id, f.attempt};
  if (auto seen = ended_.lower_bound(key); seen != ended_.end() && seen->first.first == f.migration_id)
    return Stale(stale_, fmt::format("attempt {} of migration {}, {} has ended", f.attempt, f.migration_id, seen->first.second));
  if (auto seen = moves_.lower_bound(key); seen != moves_.end() && seen->first.first == f.migration_id)
    return Stale(stale_, fmt::format("attempt {} of migration {}, {} has begun", f.attempt, f.migration_id, seen->first.second));
  return absl::OkStatus();
}

void OutgoingMoves::Bury() {
  for (auto it = moves_.begin(); it != moves_.end();) {
    if (!it->second->done()) {
      ++it;
      continue;
    }
    ended_[it->first] = it->second->Info();
    ended_order_.push_back(it->first);
    it = moves_.erase(it);
  }
  while (ended_order_.size() > options_.max_ended) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
}

absl::StatusOr<std::shared_ptr<OutgoingMove>> OutgoingMoves::Start(const StartMoveParams& params) {
  MutexLock lock(mu_);
  const Fence& fence = params.fence;
  if (auto it = moves_.find({fence.migration_id, fence.attempt}); it != moves_.end() && it->second->fence() == fence) return it->second;
  Bury();
  if (absl::Status status = CheckFence(fence); !status.ok()) return AtSource(status);
  if (static_cast<int>(moves_.size()) >= options_.max_moves) {
    return AtSource(MakeError(absl::StatusCode::kResourceExhausted, "QUEUE_FULL", fmt::format("{} moves leave here already", moves_.size())));
  }
  leader_term_ = fence.leader_term;
  auto move = OutgoingMove::Create(context_, params);
  if (!move.ok()) return AtSource(move.status());
  moves_[{fence.migration_id, fence.attempt}] = *move;
  return *move;
}

bool OutgoingMoves::Decide(const Fence& fence, const DecisionInfo& decision) {
  std::shared_ptr<OutgoingMove> move;
  {
    MutexLock lock(mu_);
    auto it = moves_.find({fence.migration_id, fence.attempt});
    if (it == moves_.end()) return false;
    const Fence& held = it->second->fence();
    if (held.epoch != fence.epoch || held.request_id != fence.request_id || held.source_boot_id != fence.source_boot_id) {
      ++stale_;
      return false;
    }
    move = it->second;
  }
  move->Decide(decision);
  return true;
}

AttemptInfo OutgoingMoves::Query(const Fence& fence) {
  MutexLock lock(mu_);
  Bury();
  const Key key{fence.migration_id, fence.attempt};
  if (auto it = moves_.find(key); it != moves_.end()) return it->second->Info();
  if (auto it = ended_.find(key); it != ended_.end()) return it->second;
  return {};
}

int OutgoingMoves::active() {
  MutexLock lock(mu_);
  Bury();
  return static_cast<int>(moves_.size());
}

}  // namespace riskkv::worker

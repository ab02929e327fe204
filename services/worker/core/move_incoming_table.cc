#include "services/worker/core/move_incoming_table.h"

#include <algorithm>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::worker {
namespace {

constexpr auto kSweepEvery = std::chrono::milliseconds(20);

absl::Status AtDestination(absl::Status status) { return WithContext(std::move(status), "destination", ""); }

bool SameAttempt(const Fence& a, const Fence& b) {
  return a.epoch == b.epoch && a.request_id == b.request_id && a.source_boot_id == b.source_boot_id &&
         a.destination_boot_id == b.destination_boot_id;
}

}  // namespace

IncomingMoves::IncomingMoves(IncomingOptions options, RequestManager* manager, PredictorStore* predictors,
                             DecisionAuthority* authority, const Clock* clock, Logger log)
    : options_(std::move(options)), staging_(options_.max_staged_bytes) {
  context_ = {options_.boot_id, manager, predictors, authority, clock, std::move(log), options_.limits, &staging_,
              options_.first_retry, options_.last_retry};
  sweeper_ = std::thread([this] { Sweep(); });
}

IncomingMoves::~IncomingMoves() {
  std::map<Key, std::shared_ptr<IncomingMove>> moves;
  {
    MutexLock lock(mu_);
    stop_ = true;
    wake_.NotifyAll();
    moves.swap(moves_);
  }
  sweeper_.join();
  moves.clear();  // each stops its thread
}

absl::Status IncomingMoves::Stale(std::string message) {
  ++stale_;
  return MakeError(absl::StatusCode::kFailedPrecondition, "STALE_FENCE", message);
}

absl::Status IncomingMoves::CheckBoot(const Fence& fence) {
  if (fence.destination_boot_id == options_.boot_id) return absl::OkStatus();
  ++stale_;
  return MakeError(absl::StatusCode::kFailedPrecondition, "BOOT_ID_CHANGED",
                   fmt::format("the attempt means boot {}, this is boot {}", fence.destination_boot_id, options_.boot_id));
}

absl::Status IncomingMoves::CheckNew(const Fence& f) {
  if (f.migration_id.empty() || f.request_id.empty() || f.attempt == 0 || f.epoch == 0 || f.source_boot_id.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
                     fmt::format("incomplete fence: migration '{}' attempt {} request '{}' epoch {} source boot '{}'", f.migration_id,
                                 f.attempt, f.request_id, f.epoch, f.source_boot_id));
  }
  RETURN_IF_ERROR(CheckBoot(f));
  if (f.source_boot_id != options_.boot_id) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, "SAME_WORKER", "source and destination are the same worker");
}

// What was seen of this request decides: attempts of a migration grow, and so do epochs.
absl::Status IncomingMoves::CheckOrder(const Fence& f) {
  if (f.leader_term < leader_term_) return Stale(fmt::format("leader term {}, {} was seen", f.leader_term, leader_term_));
  auto check = [&](const Fence& seen) {
    if (seen.migration_id == f.migration_id && seen.attempt >= f.attempt) {
      return Stale(fmt::format("attempt {} of migration {}, {} was seen", f.attempt, f.migration_id, seen.attempt));
    }
    if (seen.request_id == f.request_id && seen.epoch > f.epoch) {
      return Stale(fmt::format("epoch {} of request {}, {} was seen", f.epoch, f.request_id, seen.epoch));
    }
    return absl::OkStatus();
  };
  for (const auto& [key, move] : moves_) RETURN_IF_ERROR(check(move->fence()));
  auto buried = tombstones_.lower_bound({f.migration_id, f.attempt});
  if (buried != tombstones_.end() && buried->first.first == f.migration_id) return check(buried->second.fence);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> IncomingMoves::Reserve(const ReserveParams& params) {
  const Fence& fence = params.fence;
  if (absl::Status status = CheckNew(fence); !status.ok()) return AtDestination(status);
  {
    MutexLock lock(mu_);
    auto it = moves_.find({fence.migration_id, fence.attempt});
    if (it != moves_.end() && SameAttempt(it->second->fence(), fence)) return it->second->cells_reserved();
    if (absl::Status status = CheckOrder(fence); !status.ok()) return AtDestination(status);
    leader_term_ = fence.leader_term;
    for (const auto& [key, move] : moves_) {
      if (move->fence().request_id != fence.request_id || move->done()) continue;  // ended, not yet buried
      move->Abort(MakeError(absl::StatusCode::kAborted, "SUPERSEDED", "a newer attempt came"));
      if (move->Info().state < MoveState::kFinal || move->Info().state == MoveState::kFailed) continue;
      return AtDestination(MakeError(absl::StatusCode::kFailedPrecondition, "ALREADY_MIGRATING",
                            fmt::format("attempt {} of migration {} is {} here", move->fence().attempt, move->fence().migration_id,
                                        MoveStateName(move->Info().state))));
    }
    if (static_cast<int>(moves_.size()) >= options_.max_moves) {
      return AtDestination(MakeError(absl::StatusCode::kResourceExhausted, "QUEUE_FULL", fmt::format("{} moves are under way here", moves_.size())));
    }
  }
  auto move = IncomingMove::Create(context_, params);
  if (!move.ok()) return AtDestination(move.status());
  MutexLock lock(mu_);
  auto [it, added] = moves_.emplace(Key{fence.migration_id, fence.attempt}, *move);
  context_.log->info("{} reserved {} cells for {}", LogPrefix(fence), it->second->cells_reserved(), MoveModeName(params.mode));
  return it->second->cells_reserved();
}

absl::Status IncomingMoves::Missing(const Key& key) {
  auto it = tombstones_.find(key);
  auto higher = moves_.upper_bound(key);
  if (it == tombstones_.end() && higher != moves_.end() && higher->first.first == key.first) {
    return Stale(fmt::format("attempt {} of migration {}, {} was seen", key.second, key.first, higher->first.second));
  }
  if (it == tombstones_.end()) {
    return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_ATTEMPT",
                     fmt::format("attempt {} of migration {} is not held here", key.second, key.first));
  }
  const AttemptInfo& info = it->second.info;
  if (!info.error.ok()) return info.error;
  if (info.state == MoveState::kAborted) {
    // It was PREPARED, so this is no refusal of its own: a source that goes on must know whether it was closed or rolled back.
    return MakeError(absl::StatusCode::kDeadlineExceeded, "IN_DOUBT", "the attempt was prepared here and has ended: the coordinator knows how");
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, "ALREADY_COMMITTED", fmt::format("the attempt ended {}", MoveStateName(info.state)));
}

absl::StatusOr<std::shared_ptr<IncomingMove>> IncomingMoves::Find(const Fence& fence) {
  if (absl::Status status = CheckBoot(fence); !status.ok()) return AtDestination(status);
  MutexLock lock(mu_);
  const Key key{fence.migration_id, fence.attempt};
  auto it = moves_.find(key);
  if (it == moves_.end()) {
    return AtDestination(Missing(key));
  }
  const Fence& held = it->second->fence();
  if (!SameAttempt(held, fence) || fence.leader_term < held.leader_term) {
    return AtDestination(Stale(fmt::format("fence of request {} epoch {} term {}, held for request {} epoch {} term {}", fence.request_id,
                                  fence.epoch, fence.leader_term, held.request_id, held.epoch, held.leader_term)));
  }
  return it->second;
}

absl::StatusOr<std::shared_ptr<IncomingMove>> IncomingMoves::FindFrame(const Frame& frame) {
  MutexLock lock(mu_);
  const Key key{frame.migration_id, frame.attempt};
  auto it = moves_.find(key);
  if (RISKKV_MUTANT("frame of an older attempt accepted")) it = moves_.lower_bound(key);
  if (it == moves_.end()) return AtDestination(Missing(key));
  if (frame.epoch != it->second->fence().epoch) {
    return AtDestination(Stale(fmt::format("frame of epoch {}, the attempt has {}", frame.epoch, it->second->fence().epoch)));
  }
  return it->second;
}

absl::StatusOr<RoundReply> IncomingMoves::DeclareRound(const RoundManifest& manifest) {
  ASSIGN_OR_RETURN(std::shared_ptr<IncomingMove> move, Find(manifest.fence));
  auto reply = move->DeclareRound(manifest);
  return reply.ok() ? reply : AtDestination(reply.status());
}

absl::Status IncomingMoves::Push::Accept(const Frame& frame) {
  const bool same = move_ != nullptr && move_->fence().migration_id == frame.migration_id && move_->fence().attempt == frame.attempt &&
                    move_->fence().epoch == frame.epoch;
  if (!same) {
    ASSIGN_OR_RETURN(move_, moves_->FindFrame(frame));
  }
  return AtDestination(move_->Accept(frame, reply_));
}

absl::StatusOr<PushReply> IncomingMoves::Push::Finish() {
  if (move_ == nullptr) return AtDestination(MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT", "a push without a frame"));
  auto progress = move_->Progress();
  if (!progress.ok()) return AtDestination(progress.status());
  reply_.rebuilt_frontier = *progress;
  return reply_;
}

absl::StatusOr<FinalReply> IncomingMoves::Final(const FinalRequest& request) {
  ASSIGN_OR_RETURN(std::shared_ptr<IncomingMove> move, Find(request.fence));
  auto reply = move->Final(request);
  // Shutting down is no refusal: whatever was sent to the coordinator before may have been decided.
  if (!reply.ok() && absl::IsUnavailable(reply.status()) && ReasonOf(reply.status()).empty()) return reply;
  return reply.ok() ? reply : AtDestination(reply.status());
}

bool IncomingMoves::Abort(const Fence& fence, const absl::Status& reason) {
  auto move = Find(fence);
  if (!move.ok()) return false;
  (*move)->Abort(reason);
  return true;
}

bool IncomingMoves::Decide(const Fence& fence, const DecisionInfo& decision) {
  auto move = Find(fence);
  if (!move.ok()) return false;
  (*move)->Decide(decision);
  return true;
}

AttemptInfo IncomingMoves::Query(const Fence& fence) const {
  MutexLock lock(mu_);
  const Key key{fence.migration_id, fence.attempt};
  if (auto it = moves_.find(key); it != moves_.end()) return it->second->Info();
  if (auto it = tombstones_.find(key); it != tombstones_.end()) return it->second.info;
  return {};
}

int IncomingMoves::active() const {
  MutexLock lock(mu_);
  return static_cast<int>(moves_.size());
}

void IncomingMoves::Sweep() {
  for (;;) {
    std::vector<std::shared_ptr<IncomingMove>> open, ended;
    {
      MutexLock lock(mu_);
      if (stop_) return;
      wake_.WaitFor(mu_, kSweepEvery);
      if (stop_) return;
      for (const auto& [key, move] : moves_) (move->done() ? ended : open).push_back(move);
    }
    const absl::Duration now = context_.clock->Monotonic();
    for (const auto& move : open) move->ExpireLease(now);
    Bury(std::move(ended));
  }
}

void IncomingMoves::Bury(std::vector<std::shared_ptr<IncomingMove>> ended) {
  const absl::Duration now = context_.clock->Monotonic();
  MutexLock lock(mu_);
  for (const auto& move : ended) {
    const Key key{move->fence().migration_id, move->fence().attempt};
    tombstones_[key] = {move->fence(), move->Info(), now};
    burial_order_.push_back(key);
    moves_.erase(key);
  }
  while (!burial_order_.empty()) {
    const Tombstone& oldest = tombstones_[burial_order_.front()];
    if (burial_order_.size() <= options_.max_tombstones && now - oldest.at <= options_.tombstone_age) break;
    tombstones_.erase(burial_order_.front());
    burial_order_.pop_front();
  }
}

}  // namespace riskkv::worker

// The outside world of a move, in process: a coordinator's owner records, and a destination reached by function calls, both with faults.
#ifndef RISKKV_TESTS_UNIT_MOVE_FAKES_H_
#define RISKKV_TESTS_UNIT_MOVE_FAKES_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "services/worker/core/move_incoming_table.h"
#include "services/worker/core/move_peers.h"

namespace riskkv::worker::testing {

// The compare-and-swaps of protocol.md section 2, for one attempt a migration.
class FakeAuthority : public DecisionAuthority {
 public:
  struct Record {
    Decision decision = Decision::kOpen;
    uint64_t epoch = 0;
    int64_t start_index = 0;
  };

  absl::StatusOr<DecisionInfo> Prepared(const Fence& f, int64_t start_index, const PreparedStats&, Cancellation* cancel) override {
    ++prepared_calls;
    if (absl::Status down = Down(cancel); !down.ok()) return down;
    MutexLock lock(mu_);
    Record& r = records_[Key(f)];
    if (r.decision == Decision::kOpen) r = {Decision::kCommitted, f.epoch + 1, start_index};
    if (lose_prepared_reply.exchange(false)) return absl::UnavailableError("reply lost");
    return Info(f, r);
  }
  absl::StatusOr<DecisionInfo> Resumed(const Fence& f, uint64_t, Cancellation* cancel) override {
    ++resumed_calls;
    if (absl::Status down = Down(cancel); !down.ok()) return down;
    if (hold_resumed) return absl::UnavailableError("held by the test");
    MutexLock lock(mu_);
    Record& r = records_[Key(f)];
    if (r.decision == Decision::kCommitted) r.decision = Decision::kResumed;
    return Info(f, r);
  }
  absl::StatusOr<DecisionInfo> Resolve(const Fence& f, bool give_up, bool, Cancellation* cancel) override {
    ++resolve_calls;
    if (absl::Status down = Down(cancel); !down.ok()) return down;
    MutexLock lock(mu_);
    Record& r = records_[Key(f)];
    if (give_up && r.decision == Decision::kOpen) r.decision = Decision::kAborted;
    return Info(f, r);
  }

  // What a coordinator does of its own accord.
  DecisionInfo Close(const Fence& f) {
    MutexLock lock(mu_);
    Record& r = records_[Key(f)];
    if (r.decision == Decision::kOpen) r.decision = Decision::kAborted;
    return Info(f, r);
  }
  DecisionInfo RollBack(const Fence& f) {
    MutexLock lock(mu_);
    Record& r = records_[Key(f)];
    if (r.decision == Decision::kCommitted) r = {Decision::kRolledBack, r.epoch + 1, r.start_index};
    return Info(f, r);
  }
  Record Get(const Fence& f) {
    MutexLock lock(mu_);
    return records_[Key(f)];
  }

  std::atomic<bool> unreachable{false};
  std::atomic<bool> hold_resumed{false};
  std::atomic<bool> lose_prepared_reply{false};
  std::atomic<int> prepared_calls{0}, resumed_calls{0}, resolve_calls{0};

 private:
  static std::string Key(const Fence& f) { return f.migration_id + "/" + std::to_string(f.attempt); }
  absl::Status Down(Cancellation* cancel) const {
    if (cancel->cancelled()) return absl::CancelledError("cancelled");
    return unreachable ? absl::UnavailableError("the coordinator is away") : absl::OkStatus();
  }
  static DecisionInfo Info(const Fence&, const Record& r) { return {r.decision, r.epoch, r.start_index, "", "", absl::OkStatus()}; }

  Mutex mu_;
  std::map<std::string, Record> records_ ABSL_GUARDED_BY(mu_);
};

// Faults of the way to one destination, and what went over it. Shared by the peers of all moves to it.
struct Wire {
  std::atomic<bool> gone{false};             // every call fails as the transport does
  std::atomic<bool> gone_at_final{false};    // Final never arrives
  std::atomic<bool> lose_final_reply{false};
  std::atomic<int> flip_frames{0};           // so many frames arrive damaged
  std::atomic<int> flip_payloads{0};         // so many are damaged before their checksum is taken
  std::atomic<int64_t> delay_us{0};          // of each call
  std::function<void()> before_final;
  std::atomic<int> aborts{0}, declares{0}, finals{0};
  std::atomic<int64_t> payload_bytes{0};
  FinalReply last_final;                     // read it once the move has ended
};

class LocalPeer : public DestinationPeer {
 public:
  LocalPeer(IncomingMoves* moves, Wire* wire) : moves_(moves), wire_(wire) {}

  absl::StatusOr<RoundReply> DeclareRound(const RoundManifest& manifest, Cancellation* cancel) override {
    ++wire_->declares;
    if (absl::Status s = Way(cancel); !s.ok()) return s;
    return moves_->DeclareRound(manifest);
  }
  absl::StatusOr<PushReply> Push(const Fence& fence, std::span<const SegmentPayload> segments, Cancellation* cancel) override {
    if (absl::Status s = Way(cancel); !s.ok()) return s;
    IncomingMoves::Push push(moves_);
    if (segments.empty()) RETURN_IF_ERROR(push.Accept({fence.migration_id, fence.attempt, fence.epoch}));
    for (const SegmentPayload& segment : segments) {
      for (std::size_t at = 0; at < segment.bytes.size(); at += 1000) {  // odd pieces on purpose
        RETURN_IF_ERROR(Send(fence, segment.id, at, std::string(segment.bytes.substr(at, 1000)), push));
      }
    }
    return push.Finish();
  }
  absl::StatusOr<FinalReply> Final(const FinalRequest& request, Cancellation* cancel) override {
    ++wire_->finals;
    if (absl::Status s = Way(cancel); !s.ok()) return s;
    if (wire_->before_final) wire_->before_final();
    if (wire_->gone_at_final) return Unreachable();
    auto reply = moves_->Final(request);
    if (reply.ok()) wire_->last_final = *reply;
    if (wire_->lose_final_reply) return Unreachable();
    return reply;
  }
  void Abort(const Fence& fence, const absl::Status& reason) override {
    ++wire_->aborts;
    if (!wire_->gone) moves_->Abort(fence, reason);
  }

 private:
  static absl::Status Unreachable() { return MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE", "connection refused"); }
  absl::Status Way(Cancellation* cancel) const {
    absl::SleepFor(absl::Microseconds(wire_->delay_us.load()));
    if (cancel->cancelled()) return absl::CancelledError("cancelled");
    return wire_->gone ? Unreachable() : absl::OkStatus();
  }
  absl::Status Send(const Fence& fence, uint32_t segment, std::size_t at, std::string payload, IncomingMoves::Push& push) {
    if (wire_->flip_payloads > 0 && wire_->flip_payloads.fetch_sub(1) > 0) payload[payload.size() / 2] ^= 1;
    const uint64_t xxh3 = Xxh3(payload.data(), payload.size());
    if (wire_->flip_frames > 0 && wire_->flip_frames.fetch_sub(1) > 0) payload[0] ^= 1;
    wire_->payload_bytes += static_cast<int64_t>(payload.size());
    return push.Accept({fence.migration_id, fence.attempt, fence.epoch, segment, static_cast<int64_t>(at),
                        static_cast<int64_t>(payload.size()), xxh3, payload});
  }

  IncomingMoves* const moves_;
  Wire* const wire_;
};

}  // namespace riskkv::worker::testing

#endif  // RISKKV_TESTS_UNIT_MOVE_FAKES_H_

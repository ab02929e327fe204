// The outside world of a move, as interfaces: the destination as its source sees it, and whoever decides. rpc/ implements
// them over gRPC, tests in process.
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_PEERS_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_PEERS_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "services/worker/core/move_types.h"

namespace riskkv::worker {

// Ends calls under way from another thread. Thread-safe; cancelling is for good.
class Cancellation {
 public:
  void Cancel();
  bool cancelled() const;

  // While it lives, Cancel() runs `stop` (at once when already cancelled). `stop` must not block.
  class Hook {
   public:
    Hook(Cancellation* cancellation, std::function<void()> stop);
    ~Hook();
    Hook(const Hook&) = delete;
    Hook& operator=(const Hook&) = delete;

   private:
    Cancellation* cancellation_;
    uint64_t id_ = 0;
  };

 private:
  mutable Mutex mu_;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t next_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, std::function<void()>> hooks_ ABSL_GUARDED_BY(mu_);
};

// Bytes of one declared segment; borrowed until Push returns.
struct SegmentPayload {
  uint32_t id = 0;
  std::string_view bytes;
};

// The destination of one move. One caller at a time but for Abort; every call ends with CANCELLED soon after `cancel` is.
// Errors: the destination's own have a reason and side "destination"; the transport's have PEER_UNREACHABLE or NO_PROGRESS.
class DestinationPeer {
 public:
  virtual ~DestinationPeer() = default;
  virtual absl::StatusOr<RoundReply> DeclareRound(const RoundManifest& manifest, Cancellation* cancel) = 0;
  // Without segments: renews the lease and asks for progress.
  virtual absl::StatusOr<PushReply> Push(const Fence& fence, std::span<const SegmentPayload> segments, Cancellation* cancel) = 0;
  virtual absl::StatusOr<FinalReply> Final(const FinalRequest& request, Cancellation* cancel) = 0;
  // Best effort, short.
  virtual void Abort(const Fence& fence, const absl::Status& reason) = 0;
};
using PeerFactory = std::function<absl::StatusOr<std::unique_ptr<DestinationPeer>>(const std::string& address)>;

// Whether a failed Final is the destination's own refusal, so that the source may go on: a typed error of the same boot that neither
// says nor implies that somebody else decides (protocol.md 2.7), or one of this side, raised before anything was sent. Everything else
// leaves the source in doubt.
bool IsDefiniteRefusal(const absl::Status& status);

struct PreparedStats {
  double rebuild_ms = 0;
  double probe_error = 0;
};

// The coordinator's owner records. Thread-safe. An error is never a decision: the caller asks again.
class DecisionAuthority {
 public:
  virtual ~DecisionAuthority() = default;
  // The destination is PREPARED; the answer is the durable decision.
  virtual absl::StatusOr<DecisionInfo> Prepared(const Fence& fence, int64_t start_index, const PreparedStats& stats,
                                                Cancellation* cancel) = 0;
  // kResumed: the destination may deliver. kRolledBack: it never may.
  virtual absl::StatusOr<DecisionInfo> Resumed(const Fence& fence, uint64_t new_epoch, Cancellation* cancel) = 0;
  // What was decided; kOpen: nothing yet. give_up closes an attempt that is still open. `destination`: who asks.
  virtual absl::StatusOr<DecisionInfo> Resolve(const Fence& fence, bool give_up, bool destination, Cancellation* cancel) = 0;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_PEERS_H_

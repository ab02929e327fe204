// Makes one unbroken token sequence of the streams of several workers. It holds no connections: it is told
// what came from which source and answers what to do.
//
// The rules (protocol.md, 1 and 3):
//  - A token is identified by its index; what has an index that is already held is dropped.
//  - An epoch's tokens are valid from its own start index up to the next epoch's: an old owner may still
//  deliver below
//    the new owner's start, and nothing at or above it.
//  - A client never goes back to a lower epoch.
//  - A gap is never passed over: the token is refused and the source has to be attached again.
#ifndef RISKKV_SERVICES_CLIENT_CORE_STREAM_MERGER_H_
#define RISKKV_SERVICES_CLIENT_CORE_STREAM_MERGER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/client/core/events.h"

namespace riskkv::client {

// One stream of one worker, numbered by the caller.
using SourceId = int;

// A worker a source is attached to. Owners have an epoch and a start index, candidates (named by Moving) do
// not.
struct Target {
  std::string worker_id;
  std::string address;
  uint64_t epoch = 0;
  int64_t start_index = 0;
};

enum class Action {
  kDeliver,      // hand the token on
  kDrop,         // double or stale, or of a source that does not matter any more: counted
  kNone,         // noted
  kPreAttach,    // attach to verdict.target ahead of the decision
  kFollow,       // verdict.target owns the request: attach there from next_index(), if that is not attached
                 // already
  kReattach,     // this source is of no more use: close it; when it was the owner's, attach again from
                 // next_index()
  kCloseSource,  // this source is of no more use, and nobody misses it
  kFinished,     // the end; everything was delivered
  kFail,         // verdict.error, typed; the end
};

struct Verdict {
  Action action = Action::kNone;
  Target target;
  absl::Status error;  // with kFail, and with kReattach the reason
};

struct MergerCounters {
  int64_t stale_dropped = 0;    // by epoch
  int64_t doubles_dropped = 0;  // by index
  int64_t gaps_seen = 0;        // refused, healed by attaching again
  int64_t broken_streams = 0;
  int64_t lower_epochs_refused = 0;
  int64_t owner_changes = 0;
};

// Not thread-safe.
class StreamMerger {
 public:
  // next_index: the first output index wanted. min_epoch: the highest epoch seen so far, 0 for none.
  StreamMerger(int64_t next_index, uint64_t min_epoch);

  // A stream to this worker was opened from next_index() on. Opening to a worker that already has one forgets
  // the old.
  void OnSourceOpened(SourceId source, const Target& target);
  // Must be called for a token before it is handed on: kDeliver moves next_index() on.
  Verdict OnEvent(SourceId source, const Event& event);
  // What the coordinator answered to Locate; kFollow, or kDrop when it is older than what is known.
  Verdict OnLocated(const Target& owner);

  int64_t next_index() const { return next_index_; }
  uint64_t epoch() const { return epoch_; }
  bool finished() const { return finished_; }
  const FinishedEvent& end() const { return end_; }
  const std::string& request_id() const { return request_id_; }
  const MergerCounters& counters() const { return counters_; }
  // Who owns the request as far as this client knows.
  const Target& owner() const { return owner_; }
  bool IsOwner(SourceId source) const;
  bool Knows(SourceId source) const { return sources_.count(source) > 0; }

 private:
  Verdict OnToken(SourceId source, const TokenEvent& token);
  Verdict OnStarted(SourceId source, const StartedEvent& started);
  Verdict OnMoving(SourceId source, const MovingEvent& moving);
  Verdict OnMoved(SourceId source, const MovedEvent& moved);
  Verdict OnFinished(SourceId source, const FinishedEvent& finished);
  Verdict OnSuperseded(SourceId source);
  Verdict OnBroken(SourceId source, const BrokenEvent& broken);
  // The first index at which a higher epoch than this one is valid; the largest int64 when there is none.
  int64_t EndOf(uint64_t epoch) const;
  // DATA_LOSS when tokens of a lower epoch were already delivered at or above `start_index`.
  absl::Status LearnStart(uint64_t epoch, int64_t start_index);
  void BecomeOwner(const Target& target);
  Verdict Useless(SourceId source, absl::Status why);
  Verdict Gap(SourceId source, int64_t got);
  Verdict Double(SourceId source, const TokenEvent& token, uint64_t epoch);

  // What was delivered, from first_index_ on, to tell a double from another history.
  struct Held {
    int32_t token;
    uint64_t epoch;
  };

  std::map<SourceId, Target> sources_;
  std::map<uint64_t, int64_t> starts_;  // epoch -> first valid index
  std::vector<Held> held_;
  int64_t first_index_ = 0;
  int64_t next_index_ = 0;
  uint64_t epoch_ = 0;  // the highest seen
  Target owner_;
  std::string request_id_;
  bool finished_ = false;
  FinishedEvent end_;
  MergerCounters counters_;
};

}  // namespace riskkv::client

#endif  // RISKKV_SERVICES_CLIENT_CORE_STREAM_MERGER_H_

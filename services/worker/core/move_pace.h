// When to go on pre-copying, when to pause, and when to give up. Pure arithmetic over what was measured.
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_PACE_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_PACE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace riskkv::worker {

struct PaceLimits {
  absl::Duration max_pause = absl::Milliseconds(200);
  int max_rounds = 8;
  absl::Duration commit = absl::Milliseconds(15);  // PREPARED to the decision, as seen so far
};

struct RoundSample {
  int64_t cells = 0;
  int64_t bytes = 0;
  absl::Duration transfer;  // bytes on the way
  absl::Duration settle;    // from there until the destination has everything in its cache
  absl::Duration call;      // the shortest call of the round: a round trip
};

// Not thread-safe.
class Pacer {
 public:
  explicit Pacer(PaceLimits limits) : limits_(limits) {}

  void Record(const RoundSample& sample);
  // The client's pause if the request were paused now with so many cells of so many bytes to go.
  absl::Duration PredictPause(int64_t cells, int64_t bytes) const;

  enum class Next { kRound, kPause, kGiveUp };
  // After a round, with `cells` (of `bytes` in all) decoded meanwhile. Rounds go on while they shrink what is left.
  Next Decide(int64_t cells, int64_t bytes);
  // Why kGiveUp was answered: STAGES_EXCEEDED (DEADLINE_EXCEEDED) or PAUSE_BUDGET.
  absl::Status GaveUp() const { return gave_up_; }
  int rounds() const { return rounds_; }
  bool rounds_left() const { return rounds_ < limits_.max_rounds; }

 private:
  const PaceLimits limits_;
  int rounds_ = 0;
  int64_t total_bytes_ = 0;
  absl::Duration total_transfer_;
  double settle_s_per_cell_ = 0;  // of the last round
  absl::Duration call_ = absl::ZeroDuration();
  int64_t last_left_ = -1;
  absl::Status gave_up_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_PACE_H_

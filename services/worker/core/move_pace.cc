#include "services/worker/core/move_pace.h"

#include <algorithm>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::worker {
namespace {

constexpr int64_t kFewCells = 4;       // another round would find as many again
constexpr double kConverges = 0.75;    // a round must leave less than this of what the one before left
constexpr int kFinalCalls = 3;         // declare, push, final

double Ms(absl::Duration d) { return absl::ToDoubleMilliseconds(d); }

}  // namespace

void Pacer::Record(const RoundSample& s) {
  ++rounds_;
  total_bytes_ += s.bytes;
  total_transfer_ += s.transfer;
  if (s.cells > 0) settle_s_per_cell_ = absl::ToDoubleSeconds(s.settle) / static_cast<double>(s.cells);
  if (s.call > absl::ZeroDuration()) call_ = call_ == absl::ZeroDuration() ? s.call : std::min(call_, s.call);
}

absl::Duration Pacer::PredictPause(int64_t cells, int64_t bytes) const {
  absl::Duration pause = kFinalCalls * call_ + limits_.commit;
  if (total_bytes_ > 0) pause += total_transfer_ * (static_cast<double>(bytes) / static_cast<double>(total_bytes_));
  return pause + absl::Seconds(settle_s_per_cell_ * static_cast<double>(cells));
}

Pacer::Next Pacer::Decide(int64_t cells, int64_t bytes) {
  const absl::Duration pause = PredictPause(cells, bytes);
  const bool shrinks = last_left_ < 0 || static_cast<double>(cells) < kConverges * static_cast<double>(last_left_);
  last_left_ = cells;
  if (shrinks && cells > kFewCells && rounds_left()) return Next::kRound;
  if (pause <= limits_.max_pause) return Next::kPause;
  // Even with nothing left it would take too long, or waiting did not help.
  const bool fixed = PredictPause(0, 0) > limits_.max_pause || cells <= kFewCells;
  const std::string numbers = fmt::format("{} cells are left after {} rounds, the pause would be {:.0f} ms, {:.0f} ms are allowed", cells,
                                          rounds_, Ms(pause), Ms(limits_.max_pause));
  gave_up_ = fixed ? MakeError(absl::StatusCode::kFailedPrecondition, "PAUSE_BUDGET", numbers)
                   : MakeError(absl::StatusCode::kDeadlineExceeded, "STAGES_EXCEEDED", "pre-copy does not converge: " + numbers);
  return Next::kGiveUp;
}

}  // namespace riskkv::worker

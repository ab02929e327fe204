// After a restart of the coordinator, before the decision.
#include "common/base/status.h"
#include "fmt/format.h"
#include "services/coordinator/core/attempt_runner.h"

namespace riskkv::coordinator {
namespace {

constexpr absl::Duration kAskEvery = absl::Milliseconds(500);

}  // namespace

AttemptResult AttemptRunner::Rejoin() {
  rejoined_ = true;
  bool asked = false;
  while (Current() == Decision::kOpen) {
    if (core_.Stopping()) return Result(AttemptResult::Kind::kStopped);
    if (absl::Status trouble = Trouble(); !trouble.ok()) return CloseFor(trouble);
    const absl::Duration now = core_.clock->Monotonic();
    if (!asked || now >= next_query_) {
      asked = true;
      next_query_ = now + kAskEvery;
      auto info = core_.api->QueryAttempt(attempt_.source, fence_, core_.options.call_timeout);
      if (info.ok() && !info->known) {
        return CloseFor(MakeError(absl::StatusCode::kUnavailable, "NOT_LEADER",
                                  fmt::format("the coordinator changed before source {} had begun attempt {}", attempt_.source.id,
                                              attempt_.attempt)));
      }
      if (info.ok() && !info->error.ok()) return CloseFor(WithContext(info->error, "source", Name(info->state)));
      if (info.ok()) {
        core_.log->info("mig={}/{} req={} rejoined in {}", fence_.migration_id, fence_.attempt, fence_.request_id, Name(info->state));
        Start();  // the same fence: the running move is followed, from its first event
        break;
      }
    }
    job_->WaitChange(core_.options.tick);
  }
  return AwaitDecision();
}

AttemptResult AttemptRunner::TellClosed() {
  ended_ = ReasonOf(attempt_.error) == "REQUEST_FINISHED";
  return Closed(attempt_.error);
}

// A source that is joined again says everything from the start.
bool AttemptRunner::Told(const MoveEvent& event) const {
  if (!rejoined_) return false;
  const auto* round = std::get_if<RoundDone>(&event.detail);
  const bool paused = std::holds_alternative<PausedAt>(event.detail);
  if (round == nullptr && !paused) return false;
  for (const JobEvent& known : job_->Snapshot().events) {
    if (known.attempt != attempt_.attempt) continue;
    const auto* known_round = std::get_if<RoundDone>(&known.detail);
    if (round != nullptr && known_round != nullptr && known_round->round >= round->round) return true;
    if (paused && std::holds_alternative<PausedAt>(known.detail)) return true;
  }
  return false;
}

}  // namespace riskkv::coordinator

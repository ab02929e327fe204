#include "services/worker/core/move_types.h"

#include "common/base/digest.h"
#include "fmt/format.h"

namespace riskkv::worker {

std::string LogPrefix(const Fence& fence) {
  return fmt::format("mig={}/{} req={}", fence.migration_id, fence.attempt, fence.request_id);
}

const char* MoveModeName(MoveMode mode) {
  switch (mode) {
    case MoveMode::kUnspecified: return "UNSPECIFIED";
    case MoveMode::kFull: return "FULL";
    case MoveMode::kRisk: return "RISK";
    case MoveMode::kCoded: return "CODED";
    case MoveMode::kReplay: return "REPLAY";
  }
  return "?";
}

const char* MoveStateName(MoveState state) {
  switch (state) {
    case MoveState::kUnspecified: return "UNSPECIFIED";
    case MoveState::kReserved: return "RESERVED";
    case MoveState::kPrecopy: return "PRECOPY";
    case MoveState::kPaused: return "PAUSED";
    case MoveState::kFinal: return "FINAL";
    case MoveState::kRebuilt: return "REBUILT";
    case MoveState::kPrepared: return "PREPARED";
    case MoveState::kCommitted: return "COMMITTED";
    case MoveState::kResumed: return "RESUMED";
    case MoveState::kSucceeded: return "SUCCEEDED";
    case MoveState::kStayed: return "STAYED";
    case MoveState::kAborted: return "ABORTED";
    case MoveState::kFailed: return "FAILED";
  }
  return "?";
}

const char* DecisionName(Decision decision) {
  switch (decision) {
    case Decision::kOpen: return "OPEN";
    case Decision::kCommitted: return "COMMITTED";
    case Decision::kAborted: return "ABORTED";
    case Decision::kResumed: return "RESUMED";
    case Decision::kRolledBack: return "ROLLED_BACK";
  }
  return "?";
}

std::string TokensDigest(const std::vector<Token>& prompt, const std::vector<LoggedToken>& log) {
  Sha256 sha;
  sha.Update(prompt.data(), prompt.size() * sizeof(Token));
  for (const LoggedToken& t : log) sha.Update(&t.token, sizeof(Token));
  return sha.HexDigest();
}

}  // namespace riskkv::worker

#include "services/coordinator/core/fallback.h"

#include <set>
#include <string>

#include "common/base/status.h"

namespace riskkv::coordinator {
namespace {

// Reasons that another mode can do nothing about: the destination, the request or the record is the trouble, not the way of moving.
bool Hopeless(const std::string& reason) {
  static const std::set<std::string> kReasons = {
      "NO_BLOCKS",        "NO_SLOT",          "QUEUE_FULL",        "STAGING_FULL",     "DRAINING",
      "NOT_READY",        "PEER_UNREACHABLE", "BOOT_ID_CHANGED",   "MODEL_MISMATCH",   "DTYPE_MISMATCH",
      "ROPE_MISMATCH",    "PROTOCOL_VERSION", "SAME_WORKER",       "REQUEST_FINISHED", "UNKNOWN_REQUEST",
      "EPOCH_CONFLICT",   "NOT_OWNER",        "ALREADY_MIGRATING", "NOT_LEADER",       "CANCELLED_BY_CALLER",
      "DEADLINE_TOTAL",   "DEADLINE_QUEUE",   "UNKNOWN_WORKER",    "DISK_FULL",        "STORE_UNAVAILABLE",
      "STATE_NOT_TRANSFERABLE"};
  return kReasons.count(reason) > 0;
}

// FULL ships more than a lossy mode: where its rounds did not converge, it would not either.
bool TooSlow(const std::string& reason) { return reason == "STAGES_EXCEEDED" || reason == "PAUSE_BUDGET"; }

}  // namespace

Mode NextMode(Mode mode, OnFailure on_failure, const absl::Status& why) {
  if (on_failure == OnFailure::kFail) return Mode::kUnspecified;
  std::string reason = ReasonOf(why);
  if (Hopeless(reason)) return Mode::kStay;
  if (IsLossy(mode) && !TooSlow(reason)) return Mode::kFull;
  if (mode != Mode::kReplay && on_failure == OnFailure::kReplay) return Mode::kReplay;
  return Mode::kStay;
}

}  // namespace riskkv::coordinator

#include "services/worker/core/move_peers.h"

#include <utility>

#include "common/base/status.h"

namespace riskkv::worker {

void Cancellation::Cancel() {
  MutexLock lock(mu_);
  cancelled_ = true;
  // Under the lock, so that a hook's owner cannot go away meanwhile.
  for (auto& [id, stop] : hooks_) stop();
}

bool Cancellation::cancelled() const {
  MutexLock lock(mu_);
  return cancelled_;
}

Cancellation::Hook::Hook(Cancellation* cancellation, std::function<void()> stop) : cancellation_(cancellation) {
  if (cancellation_ == nullptr) return;
  MutexLock lock(cancellation_->mu_);
  if (cancellation_->cancelled_) stop();
  id_ = cancellation_->next_id_++;
  cancellation_->hooks_[id_] = std::move(stop);
}

Cancellation::Hook::~Hook() {
  if (cancellation_ == nullptr) return;
  MutexLock lock(cancellation_->mu_);
  cancellation_->hooks_.erase(id_);
}

bool IsDefiniteRefusal(const absl::Status& status) {
  const auto detail = GetDetail(status);
  if (!detail || detail->reason.empty() || detail->in_doubt) return false;
  if (detail->side == "source") return true;  // it was never sent
  if (detail->side != "destination") return false;
  // A new boot knows nothing of what its predecessor had prepared.
  return detail->reason != "BOOT_ID_CHANGED" && detail->reason != "ALREADY_COMMITTED" && detail->reason != "IN_DOUBT";
}

}  // namespace riskkv::worker

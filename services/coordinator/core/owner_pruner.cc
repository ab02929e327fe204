#include "services/coordinator/core/owner_pruner.h"

#include "common/base/status.h"

namespace riskkv::coordinator {

bool OwnerPruner::Held(const std::string& boot_id, const std::string& request_id) const {
  auto worker = core_.registry->FindBoot(boot_id);
  return worker && worker->alive() && !absl::IsNotFound(core_.api->GetRequest(worker->info.name, request_id).status());
}

bool OwnerPruner::Ended(const OwnerRecord& record) {
  if (Held(record.owner.boot_id, record.request_id) || Held(record.previous.boot_id, record.request_id)) {
    missed_since_.erase(record.request_id);
    return false;
  }
  const absl::Duration now = core_.clock->Monotonic();
  return now - missed_since_.emplace(record.request_id, now).first->second >= core_.options.retention;
}

absl::StatusOr<int64_t> OwnerPruner::Pass(int budget) {
  ASSIGN_OR_RETURN(std::vector<OwnerRecord> owners, core_.store->ListOwners(after_, budget));
  int64_t removed = 0;
  for (const OwnerRecord& record : owners) {
    if (core_.Stopping()) return removed;
    after_ = record.request_id;
    if (record.open || !record.resumed) continue;
    ASSIGN_OR_RETURN(std::vector<JobRecord> jobs, core_.store->ListJobs({.request_id = record.request_id, .limit = 1}));
    if (!jobs.empty() || !Ended(record)) continue;
    // A job that was accepted meanwhile keeps it: the store looks again, and compares the revision.
    ASSIGN_OR_RETURN(const bool gone, core_.store->RemoveOwner(record));
    if (!gone) continue;
    missed_since_.erase(record.request_id);
    ++removed;
  }
  if (static_cast<int>(owners.size()) < budget) after_.clear();
  return removed;
}

}  // namespace riskkv::coordinator

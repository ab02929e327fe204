#include "services/coordinator/core/worker_registry.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::coordinator {
namespace {

absl::Status UnknownWorker(const std::string& id) {
  return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_WORKER", fmt::format("no worker '{}' has registered", id));
}

}  // namespace

absl::Status WorkerRegistry::Register(WorkerInfo info) {
  if (info.name.id.empty() || info.name.boot_id.empty() || info.name.address.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
                     fmt::format("a worker needs an id, a boot id and an address: got '{}', '{}', '{}'", info.name.id,
                                 info.name.boot_id, info.name.address));
  }
  MutexLock lock(mu_);
  std::string id = info.name.id;
  workers_[id] = Entry{std::move(info), clock_->Monotonic()};
  return absl::OkStatus();
}

absl::StatusOr<bool> WorkerRegistry::Renew(const LeaseRenewal& renewal) {
  MutexLock lock(mu_);
  auto it = workers_.find(renewal.worker_id);
  if (it == workers_.end() || it->second.info.name.boot_id != renewal.boot_id) return UnknownWorker(renewal.worker_id);
  Entry& entry = it->second;
  entry.renewed = clock_->Monotonic();
  entry.info.load = renewal.load;
  entry.info.costs = renewal.costs;
  entry.info.serving = renewal.serving;
  const auto& digests = renewal.set_digests;
  auto& sets = entry.info.sets;
  sets.erase(std::remove_if(sets.begin(), sets.end(),
                            [&](const SetInfo& set) {
                              return std::find(digests.begin(), digests.end(), set.digest) == digests.end();
                            }),
             sets.end());
  return std::any_of(digests.begin(), digests.end(), [&](const std::string& d) { return !entry.info.Holds(d); });
}

void WorkerRegistry::UpdateSets(const WorkerName& worker, std::vector<SetInfo> sets) {
  MutexLock lock(mu_);
  auto it = workers_.find(worker.id);
  if (it == workers_.end() || it->second.info.name.boot_id != worker.boot_id) return;
  it->second.info.sets = std::move(sets);
}

RegisteredWorker WorkerRegistry::View(const Entry& entry) const {
  return {entry.info, lease_ - (clock_->Monotonic() - entry.renewed)};
}

absl::StatusOr<RegisteredWorker> WorkerRegistry::Find(const std::string& worker_id) const {
  MutexLock lock(mu_);
  auto it = workers_.find(worker_id);
  if (it == workers_.end()) return UnknownWorker(worker_id);
  return View(it->second);
}

absl::StatusOr<WorkerInfo> WorkerRegistry::FindAlive(const std::string& worker_id) const {
  ASSIGN_OR_RETURN(RegisteredWorker worker, Find(worker_id));
  if (!worker.alive()) {
    return MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE",
                     fmt::format("worker {} at {} has not renewed its lease for {}", worker_id, worker.info.name.address,
                                 std::string(absl::FormatDuration(lease_ - worker.lease_remaining))));
  }
  return worker.info;
}

std::optional<RegisteredWorker> WorkerRegistry::FindBoot(const std::string& boot_id) const {
  MutexLock lock(mu_);
  for (const auto& [id, entry] : workers_) {
    if (entry.info.name.boot_id == boot_id) return View(entry);
  }
  return std::nullopt;
}

Presence WorkerRegistry::PresenceOf(const WorkerName& worker) const {
  MutexLock lock(mu_);
  auto it = workers_.find(worker.id);
  if (it == workers_.end()) {
    return clock_->Monotonic() - started_ < lease_ ? Presence::kUnknown : Presence::kGone;
  }
  if (it->second.info.name.boot_id != worker.boot_id) return Presence::kGone;
  return View(it->second).alive() ? Presence::kAlive : Presence::kGone;
}

std::vector<RegisteredWorker> WorkerRegistry::All() const {
  MutexLock lock(mu_);
  std::vector<RegisteredWorker> result;
  for (const auto& [id, entry] : workers_) result.push_back(View(entry));
  return result;
}

}  // namespace riskkv::coordinator

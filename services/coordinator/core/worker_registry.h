// Which workers there are, under leases on the monotonic clock. A lease that ran out says that a worker is gone; it never changes
// who owns a request (protocol.md, 3).
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_WORKER_REGISTRY_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_WORKER_REGISTRY_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "services/coordinator/core/worker_types.h"

namespace riskkv::coordinator {

struct LeaseRenewal {
  std::string worker_id;
  std::string boot_id;
  WorkerLoad load;
  WorkerCosts costs;
  bool serving = true;
  std::vector<std::string> set_digests;
};

struct RegisteredWorker {
  WorkerInfo info;
  absl::Duration lease_remaining;  // not positive: expired
  bool alive() const { return lease_remaining > absl::ZeroDuration(); }
};

// Whether one boot of a worker can still do anything.
enum class Presence {
  kAlive,
  kUnknown,  // not heard of since this coordinator started, less than a lease ago
  kGone,     // its lease ran out, or its id has another boot now
};

// Thread-safe.
class WorkerRegistry {
 public:
  WorkerRegistry(const Clock* clock, absl::Duration lease) : clock_(clock), lease_(lease), started_(clock->Monotonic()) {}

  // A new boot of the same id replaces the old one. INVALID_ARGUMENT without id, boot or address; ALREADY_EXISTS never: two processes
  // with one id take turns, which the log shows.
  absl::Status Register(WorkerInfo info);
  // NOT_FOUND (UNKNOWN_WORKER): register again. Sets that the worker holds no longer are dropped; true when it names one that is not
  // known yet (the caller describes the worker again).
  absl::StatusOr<bool> Renew(const LeaseRenewal& renewal);
  // Replaces the sets a worker of this boot holds.
  void UpdateSets(const WorkerName& worker, std::vector<SetInfo> sets);

  // NOT_FOUND (UNKNOWN_WORKER) naming the id; an expired one is still found.
  absl::StatusOr<RegisteredWorker> Find(const std::string& worker_id) const;
  // UNAVAILABLE (PEER_UNREACHABLE) when its lease ran out.
  absl::StatusOr<WorkerInfo> FindAlive(const std::string& worker_id) const;
  std::optional<RegisteredWorker> FindBoot(const std::string& boot_id) const;
  Presence PresenceOf(const WorkerName& worker) const;
  std::vector<RegisteredWorker> All() const;
  absl::Duration lease() const { return lease_; }

 private:
  struct Entry {
    WorkerInfo info;
    absl::Duration renewed;
  };
  RegisteredWorker View(const Entry& entry) const;

  const Clock* const clock_;
  const absl::Duration lease_;
  const absl::Duration started_;
  mutable Mutex mu_;
  std::map<std::string, Entry> workers_ ABSL_GUARDED_BY(mu_);  // by id
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_WORKER_REGISTRY_H_

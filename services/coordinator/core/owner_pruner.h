// Removes the owner records of requests that have ended.
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_OWNER_PRUNER_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_OWNER_PRUNER_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/coordinator/core/context.h"

namespace riskkv::coordinator {

// A record goes when no job refers to it and its request has ended: neither its owner nor the owner before, which may still ask what
// became of its attempt, holds anything of the request any more, or they are lost. That may also mean a request that its client is about
// to recover, so the record stays for the retention after that was first seen.
// Used by one thread.
class OwnerPruner {
 public:
  explicit OwnerPruner(const CoreContext& core) : core_(core) {}
  // Looks at the next records, at most `budget`, and goes round. Returns how many went.
  absl::StatusOr<int64_t> Pass(int budget = 256);

 private:
  bool Ended(const OwnerRecord& record);
  bool Held(const std::string& boot_id, const std::string& request_id) const;

  const CoreContext& core_;
  std::string after_;  // the last one looked at
  std::map<std::string, absl::Duration> missed_since_;  // request -> monotonic
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_OWNER_PRUNER_H_

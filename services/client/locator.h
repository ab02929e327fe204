// Asks the coordinator who owns a request.
#ifndef RISKKV_SERVICES_CLIENT_LOCATOR_H_
#define RISKKV_SERVICES_CLIENT_LOCATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/net/leader_channel.h"
#include "services/client/core/stream_merger.h"

namespace riskkv::client {

// Thread-safe.
class Locator {
 public:
  // One address, or several coordinators', comma-separated, of which one leads.
  explicit Locator(const std::string& coordinator_addresses);
  absl::StatusOr<Target> Locate(const std::string& request_id, absl::Duration timeout) const;

 private:
  const std::unique_ptr<LeaderChannel> leader_;
};

}  // namespace riskkv::client

#endif  // RISKKV_SERVICES_CLIENT_LOCATOR_H_

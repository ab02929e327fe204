// Asks the coordinator for a new owner of a request whose owner is lost for good (protocol.md, 3).
#ifndef RISKKV_SERVICES_CLIENT_RECOVERER_H_
#define RISKKV_SERVICES_CLIENT_RECOVERER_H_

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/net/leader_channel.h"
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "services/client/core/stream_merger.h"

namespace riskkv::client {

// One call at a time, on a thread of its own: the new owner replays prompt and tokens before it answers. Used by one thread.
class Recoverer {
 public:
  // One address, or several coordinators', comma-separated, of which one leads.
  explicit Recoverer(const std::string& coordinator_addresses);
  ~Recoverer();  // ends the call; whether it acted is then for Locate to tell

  void Start(v1::RecoverRequest request, absl::Duration timeout);
  bool running() const { return thread_.joinable(); }
  // Once, when the call has ended: the new owner, or why there is none (NOT_OWNER and NOT_READY: the owner may come back).
  std::optional<absl::StatusOr<Target>> Take();

 private:
  absl::StatusOr<Target> Call(const v1::RecoverRequest& request, absl::Duration timeout);

  LeaderChannel leader_;
  std::thread thread_;
  Mutex mu_;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;  // of the call under way
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::StatusOr<Target>> answer_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv::client

#endif  // RISKKV_SERVICES_CLIENT_RECOVERER_H_

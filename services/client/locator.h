// Asks the coordinator who owns a request.
#ifndef RISKKV_SERVICES_CLIENT_LOCATOR_H_
#define RISKKV_SERVICES_CLIENT_LOCATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "services/client/core/stream_merger.h"

namespace riskkv::client {

// Thread-safe.
class Locator {
 public:
  explicit Locator(const std::string& coordinator_address);
  absl::StatusOr<Target> Locate(const std::string& request_id, absl::Duration timeout) const;

 private:
  const std::string address_;
  std::unique_ptr<v1::Coordinator::Stub> stub_;
};

}  // namespace riskkv::client

#endif  // RISKKV_SERVICES_CLIENT_LOCATOR_H_

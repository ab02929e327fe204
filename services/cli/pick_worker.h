// Which worker a new request goes to when the user named none.
#ifndef RISKKV_SERVICES_CLI_PICK_WORKER_H_
#define RISKKV_SERVICES_CLI_PICK_WORKER_H_

#include <string>

#include "absl/status/statusor.h"
#include "riskkv/v1/worker.pb.h"

namespace riskkv::cli {

// Where clients reach a worker.
const std::string& ClientAddress(const v1::WorkerInfo& worker);

// The client address of the serving worker with the largest share of free cells. UNAVAILABLE without one.
absl::StatusOr<std::string> PickWorker(const std::string& coordinator);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_PICK_WORKER_H_

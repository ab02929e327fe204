// grpc.health.v1 over any channel. Not through generated stubs: the service class of that proto is gRPC's
// own.
#ifndef RISKKV_SERVICES_CLI_HEALTH_CHECK_H_
#define RISKKV_SERVICES_CLI_HEALTH_CHECK_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace riskkv::cli {

// The serving status by name: "SERVING", "NOT_SERVING", ... `service` empty: the whole process.
absl::StatusOr<std::string> CheckHealth(const std::string& address, const std::string& service,
                                        absl::Duration timeout);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_HEALTH_CHECK_H_

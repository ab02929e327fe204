// absl::Status <-> grpc::Status <-> riskkv.v1.ErrorDetail. The only place that knows all three.
#ifndef RISKKV_COMMON_NET_STATUS_H_
#define RISKKV_COMMON_NET_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "common/base/status.h"
#include "grpcpp/support/status.h"
#include "riskkv/v1/common.pb.h"

namespace riskkv {

// The detail becomes a google.rpc.Status in the binary error details, so that grpcurl prints it.
grpc::Status ToGrpc(const absl::Status& status);
// UNAVAILABLE without a detail (the transport's own) gets PEER_UNREACHABLE, DEADLINE_EXCEEDED NO_PROGRESS.
absl::Status FromGrpc(const grpc::Status& status);
// The same with "<what>: " before the message, e.g. the peer and the call.
absl::Status FromGrpc(const grpc::Status& status, std::string_view what);

// UNAVAILABLE (NOT_LEADER): ask the coordinator at `leader_address` instead; empty: nobody leads at the moment. The address travels.
absl::Status NotLeader(const std::string& leader_address);
// The address in such an error; empty when it names none, or is another one.
std::string LeaderAddress(const absl::Status& status);

v1::ErrorDetail ToProto(const absl::Status& status);
// OK for an absent or empty detail (code 0).
absl::Status FromProto(const v1::ErrorDetail& detail);

}  // namespace riskkv

#endif  // RISKKV_COMMON_NET_STATUS_H_

// Requests <-> proto messages.
#ifndef RISKKV_SERVICES_WORKER_RPC_REQUEST_CONVERT_H_
#define RISKKV_SERVICES_WORKER_RPC_REQUEST_CONVERT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "riskkv/v1/common.pb.h"
#include "riskkv/v1/generation.pb.h"
#include "services/worker/core/request.h"

namespace riskkv::worker {

v1::StopParams ToProto(const StopParams& params);
// max_tokens 0 becomes the default. What the numbers may be is the manager's to check.
StopParams FromProto(const v1::StopParams& params);

v1::TokenRecord ToProto(const LoggedToken& token);
LoggedToken FromProto(const v1::TokenRecord& token);

v1::Provenance ToProto(const Provenance& provenance);
Provenance FromProto(const v1::Provenance& provenance);

v1::RequestState ToProto(RequestState state);
v1::FinishReason ToProto(FinishReason reason);
FinishReason FromProto(v1::FinishReason reason);

v1::RequestInfo ToProto(const RequestSnapshot& snapshot, const std::string& worker_id);

// INVALID_ARGUMENT (BAD_ARGUMENT) naming the field; the rest is the manager's to check.
absl::StatusOr<RequestParams> ParamsFromProto(const v1::SamplingParams& sampling, const v1::StopParams& stop);

// The prompt of a GenerateRequest as tokens. INVALID_ARGUMENT (BAD_ARGUMENT): no input, empty, more text than any context holds.
absl::StatusOr<std::vector<Token>> PromptFromProto(const v1::GenerateRequest& request, const Engine& engine);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_RPC_REQUEST_CONVERT_H_

// Plain structs <-> proto messages used by more than one service.
#ifndef RISKKV_COMMON_NET_CONVERT_H_
#define RISKKV_COMMON_NET_CONVERT_H_

#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "common/kv/layout.h"
#include "riskkv/v1/common.pb.h"

namespace riskkv {

v1::Fingerprint ToProto(const Fingerprint& fingerprint);
Fingerprint FromProto(const v1::Fingerprint& fingerprint);

v1::SamplingParams ToProto(const SamplingParams& params);
// INVALID_ARGUMENT as SamplingParams::Validate.
absl::StatusOr<SamplingParams> FromProto(const v1::SamplingParams& params);

v1::TokenRange ToProto(TokenRange range);
TokenRange FromProto(const v1::TokenRange& range);

}  // namespace riskkv

#endif  // RISKKV_COMMON_NET_CONVERT_H_

// kernels::Status -> absl::Status.
#ifndef RISKKV_COMMON_KV_CONVERT_H_
#define RISKKV_COMMON_KV_CONVERT_H_

#include "absl/status/status.h"
#include "kernels/status.h"

namespace riskkv {
absl::Status ToAbsl(const kernels::Status& status);
}  // namespace riskkv

#endif  // RISKKV_COMMON_KV_CONVERT_H_

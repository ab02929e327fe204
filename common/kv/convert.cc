#include "common/kv/convert.h"

namespace riskkv {

absl::Status ToAbsl(const kernels::Status& status) {
  switch (status.code()) {
    case kernels::Code::kOk:
      return absl::OkStatus();
    case kernels::Code::kInvalidArgument:
      return absl::InvalidArgumentError(status.message());
    case kernels::Code::kNotFound:
      return absl::NotFoundError(status.message());
    case kernels::Code::kResourceExhausted:
      return absl::ResourceExhaustedError(status.message());
    case kernels::Code::kUnavailable:
      return absl::UnavailableError(status.message());
    case kernels::Code::kInternal:
      return absl::InternalError(status.message());
    case kernels::Code::kOutOfRange:
      return absl::OutOfRangeError(status.message());
  }
  return absl::InternalError("unknown code of the kernels library: " + status.message());
}

}  // namespace riskkv

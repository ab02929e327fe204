// The kernels library stands alone: GPU machines have neither Abseil nor gRPC. common/kv converts this to absl::Status.
#ifndef RISKKV_KERNELS_STATUS_H_
#define RISKKV_KERNELS_STATUS_H_

#include <string>
#include <utility>

namespace riskkv::kernels {

enum class Code { kOk, kInvalidArgument, kNotFound, kResourceExhausted, kUnavailable, kInternal, kOutOfRange };

// A success, or a code with a message that names the thing and the values involved.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_STATUS_H_

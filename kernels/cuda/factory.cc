#include "kernels/cuda/factory.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "kernels/cuda/cuda_backend.h"

namespace riskkv::kernels {
namespace {

Status Create(uint64_t interface, std::unique_ptr<Backend>* backend) {
  if (interface != kCudaInterface) {
    char numbers[64];
    std::snprintf(numbers, sizeof(numbers), "%llx, not %llx", static_cast<unsigned long long>(kCudaInterface),
                  static_cast<unsigned long long>(interface));
    return Status(Code::kUnavailable, std::string("the CUDA module is of another build (interface ") + numbers + ")");
  }
  try {
    return CudaBackend::Create(backend);
  } catch (const std::exception& error) {
    return Status(Code::kResourceExhausted, std::string("the CUDA backend could not start: ") + error.what());
  }
}

}  // namespace
}  // namespace riskkv::kernels

extern "C" __attribute__((visibility("default"))) int riskkv_cuda_create_backend(
    uint64_t interface, riskkv::kernels::Backend** backend, char* message, std::size_t size) {
  std::unique_ptr<riskkv::kernels::Backend> made;
  const riskkv::kernels::Status status = riskkv::kernels::Create(interface, &made);
  std::snprintf(message, size, "%s", status.message().c_str());
  if (status.ok()) *backend = made.release();
  return static_cast<int>(status.code());
}

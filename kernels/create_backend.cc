#include "kernels/backend.h"

namespace riskkv::kernels {

Status CreateBackend(BackendChoice choice, int cpu_threads, std::unique_ptr<Backend>* backend) {
  (void)choice, (void)cpu_threads, (void)backend;
  return Status(Code::kUnavailable, "no backend is built yet");
}

}  // namespace riskkv::kernels

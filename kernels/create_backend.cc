#include <utility>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/loader.h"

namespace riskkv::kernels {

Status CreateBackend(BackendChoice choice, int cpu_threads, std::unique_ptr<Backend>* backend) {
  const GemmKind gemm = AvailableGemms().front();
  if (choice == BackendChoice::kCpu) return CreateCpuBackend(cpu_threads, gemm, "CPU asked for", backend);
  Status cuda = LoadCudaBackend(backend);
  if (cuda.ok()) return cuda;
  if (choice == BackendChoice::kCuda) return cuda;
  return CreateCpuBackend(cpu_threads, gemm, cuda.message() + ", using the CPU", backend);
}

}  // namespace riskkv::kernels

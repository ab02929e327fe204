// The CPU backend: one tile after the other, in fp32 (README.md says how a tile is computed).
#ifndef RISKKV_KERNELS_CPU_CPU_BACKEND_H_
#define RISKKV_KERNELS_CPU_CPU_BACKEND_H_

#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/cpu/gemm.h"

namespace riskkv::kernels {

// `gemm` is one of AvailableGemms(); `note` says why this backend was chosen. kInvalidArgument when threads is below 1.
Status CreateCpuBackend(int threads, GemmKind gemm, std::string note, std::unique_ptr<Backend>* backend);

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CPU_CPU_BACKEND_H_

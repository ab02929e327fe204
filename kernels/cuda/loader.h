// Finds and loads libriskkv_cuda.so. Host only; compiled in with and without CUDA.
#ifndef RISKKV_KERNELS_CUDA_LOADER_H_
#define RISKKV_KERNELS_CUDA_LOADER_H_

#include <memory>
#include <string>

#include "kernels/backend.h"

namespace riskkv::kernels {

// The file to load instead of looking for it: a module from another build, or a path that does not exist to force the
// CPU. Honoured in builds without CUDA too.
inline constexpr char kCudaLibraryEnv[] = "RISKKV_CUDA_LIBRARY";

// kUnavailable, with the reason, when there is no module, no driver, no CUDA library or no device. Looks in
// $RISKKV_CUDA_LIBRARY alone, or else beside the binary this code is linked into, in ../lib of it, and where the
// dynamic linker looks. A loaded module stays loaded.
Status LoadCudaBackend(std::unique_ptr<Backend>* backend);

// The same for one file. Without `check_driver` the module is loaded, cuBLAS and all, even where no driver is: the
// tests want that; the service would lose a second and 500 MB of address space to learn that there is no GPU.
Status LoadCudaBackendFrom(const std::string& path, bool check_driver, std::unique_ptr<Backend>* backend);

// The files LoadCudaBackend would try, in order.
std::vector<std::string> CudaLibraryCandidates();

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_LOADER_H_

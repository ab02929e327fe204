// Which backend CreateBackend gives, and that it says why.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>


#include "kernels/cuda/loader.h"
#include "kernels/tests/backends.h"

namespace riskkv::kernels::test {
namespace {

// Sets RISKKV_CUDA_LIBRARY for one scope.
class ScopedLibrary {
 public:
  explicit ScopedLibrary(const char* path) {
    if (const char* old = std::getenv(kCudaLibraryEnv)) old_ = old;
    setenv(kCudaLibraryEnv, path, 1);
  }
  ~ScopedLibrary() { old_.empty() ? unsetenv(kCudaLibraryEnv) : setenv(kCudaLibraryEnv, old_.c_str(), 1); }

 private:
  std::string old_;
};

RISKKV_TEST(choice_cpu_says_what_it_runs_on) {
  const auto backend = MakeCpu(2);
  const DeviceInfo& info = backend->info();
  Note(Text(info.device, ", ", info.memory_bytes >> 20, " MiB; ", info.note));
  CHECK_EQ(info.backend, "cpu");
  CHECK(!info.device.empty());
  CHECK(info.memory_bytes > 0);
  CHECK(info.note.find("CPU asked for") != std::string::npos);
  CHECK(info.note.find("2 threads") != std::string::npos);
}

RISKKV_TEST(choice_auto_gives_a_backend_and_the_reason) {
  std::unique_ptr<Backend> backend;
  CHECK_OK(CreateBackend(BackendChoice::kAuto, 1, &backend));
  Note(Text(backend->info().backend, ": ", backend->info().note));
  CHECK(!backend->info().note.empty());
  if (backend->info().backend == "cpu") CHECK(backend->info().note.find("using the CPU") != std::string::npos);
}

RISKKV_TEST(choice_cuda_without_the_module_is_unavailable) {
  const ScopedLibrary library("/nowhere/libriskkv_cuda.so");
  std::unique_ptr<Backend> backend;
  const Status status = CreateBackend(BackendChoice::kCuda, 1, &backend);
  Note(status.message());
  CHECK_EQ(static_cast<int>(status.code()), static_cast<int>(Code::kUnavailable));
  CHECK(backend == nullptr);
  CHECK_ERROR(LoadCudaBackendFrom("/nowhere/libriskkv_cuda.so", false, &backend), Code::kUnavailable,
              "/nowhere/libriskkv_cuda.so");
  CHECK_OK(CreateBackend(BackendChoice::kAuto, 1, &backend));
  CHECK_EQ(backend->info().backend, "cpu");
}

RISKKV_TEST(choice_a_file_that_is_no_module_is_refused) {
  const std::string path = Text("/tmp/riskkv-not-a-module-", getpid(), ".so");
  std::ofstream(path) << "not an ELF file";
  std::unique_ptr<Backend> backend;
  const Status status = LoadCudaBackendFrom(path, false, &backend);
  std::remove(path.c_str());
  CHECK_ERROR(status, Code::kUnavailable, path);
  CHECK_ERROR(LoadCudaBackendFrom("libm.so.6", false, &backend), Code::kUnavailable, "is no riskkv CUDA module");
}

// Loads the real module, cuBLAS and all, even without a driver: it must load, and say what is missing.
RISKKV_TEST(choice_the_module_loads_without_a_driver) {
  const std::vector<std::string> candidates = CudaLibraryCandidates();
  if (candidates.empty()) throw Skipped("built without CUDA");
  std::unique_ptr<Backend> backend;
  Status status;
  for (const std::string& path : candidates) {
    if (access(path.c_str(), F_OK) != 0) continue;
    status = LoadCudaBackendFrom(path, false, &backend);
    if (status.ok()) throw Skipped("a device answered: " + backend->info().device);
    Note(Text(path, ": ", status.message()));
    CHECK_ERROR(status, Code::kUnavailable, "no CUDA device");
    return;
  }
  RISKKV_FAIL("no module beside the binary");
}

}  // namespace
}  // namespace riskkv::kernels::test

#include "kernels/cuda/loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "kernels/cuda/factory.h"

namespace riskkv::kernels {
namespace {

constexpr char kModule[] = "libriskkv_cuda.so";
constexpr char kDriver[] = "libcuda.so.1";

#ifdef RISKKV_KERNELS_CUDA
constexpr bool kBuiltWithCuda = true;
#else
constexpr bool kBuiltWithCuda = false;
#endif

Status Unavailable(std::string message) { return Status(Code::kUnavailable, std::move(message)); }

std::string DlError() {
  const char* error = dlerror();
  return error != nullptr ? error : "unknown error";
}

// Folder of the executable or shared object that holds this code.
std::string OwnFolder() {
  Dl_info info;
  char real[PATH_MAX];
  std::string path;
  if (dladdr(reinterpret_cast<void*>(&OwnFolder), &info) != 0 && info.dli_fname != nullptr &&
      realpath(info.dli_fname, real) != nullptr) {
    path = real;
  } else if (const ssize_t n = readlink("/proc/self/exe", real, sizeof(real)); n > 0) {
    // dli_fname is argv[0] for the main program: a bare name when it came from PATH.
    path.assign(real, static_cast<std::size_t>(n));
  }
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

}  // namespace

std::vector<std::string> CudaLibraryCandidates() {
  if (const char* asked = std::getenv(kCudaLibraryEnv); asked != nullptr && *asked != '\0') return {asked};
  if (!kBuiltWithCuda) return {};
  std::vector<std::string> paths;
  if (const std::string folder = OwnFolder(); !folder.empty()) {
    paths = {folder + "/" + kModule, folder + "/../lib/" + kModule};
  }
  paths.push_back(kModule);
  return paths;
}

Status LoadCudaBackendFrom(const std::string& path, bool check_driver, std::unique_ptr<Backend>* backend) {
  if (check_driver && dlopen(kDriver, RTLD_NOW | RTLD_LOCAL) == nullptr) {
    return Unavailable("no NVIDIA driver (" + DlError() + ")");
  }
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (module == nullptr) return Unavailable("CUDA module not loaded (" + DlError() + ")");
  const auto factory = reinterpret_cast<CudaFactory>(dlsym(module, kCudaFactoryName));
  if (factory == nullptr) return Unavailable(path + " is no riskkv CUDA module (" + DlError() + ")");
  Backend* created = nullptr;
  char message[512] = "";
  const int code = factory(kCudaInterface, &created, message, sizeof(message));
  if (code != static_cast<int>(Code::kOk)) return Status(static_cast<Code>(code), message);
  backend->reset(created);
  return Status();
}

Status LoadCudaBackend(std::unique_ptr<Backend>* backend) {
  const std::vector<std::string> candidates = CudaLibraryCandidates();
  if (candidates.empty()) return Unavailable("built without CUDA");
  for (const std::string& path : candidates) {
    // The last one is left to the dynamic linker, whose message then says what is missing.
    if (&path == &candidates.back() || Exists(path)) return LoadCudaBackendFrom(path, true, backend);
  }
  return Unavailable("no CUDA module");
}

}  // namespace riskkv::kernels

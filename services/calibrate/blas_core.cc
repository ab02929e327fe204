#include "services/calibrate/blas_core.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/cpu/gemm.h"

namespace riskkv::calibrate {
namespace {

// Arguments of this process, as the kernel keeps them: each ends with a zero byte.
std::vector<std::string> OwnArguments() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(in), {});
  std::vector<std::string> arguments;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = all.find('\0', at);
    arguments.push_back(all.substr(at, end - at));
    at = end == std::string::npos ? all.size() : end + 1;
  }
  return arguments;
}

}  // namespace

void RestartWithBetterBlas() {
  constexpr char kVariable[] = "OPENBLAS_CORETYPE";
  if (std::getenv(kVariable) != nullptr) return;
  const std::string core = kernels::BetterBlasCore();
  std::vector<std::string> arguments = OwnArguments();
  if (core.empty() || arguments.empty()) return;
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  ::setenv(kVariable, core.c_str(), 1);
  ::execv("/proc/self/exe", argv.data());
  // Only slower.
}

}  // namespace riskkv::calibrate

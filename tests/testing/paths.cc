#include "tests/testing/paths.h"

namespace riskkv::testing {

std::string SourceDir() { return RISKKV_SOURCE_DIR; }
std::string BinaryPath(const std::string& name) { return std::string(RISKKV_BIN_DIR) + "/" + name; }

}  // namespace riskkv::testing

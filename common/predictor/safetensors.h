// The safetensors container: u64 little-endian header length, JSON header, tensor data. Readable by Python's
// safetensors.
#ifndef RISKKV_COMMON_PREDICTOR_SAFETENSORS_H_
#define RISKKV_COMMON_PREDICTOR_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace riskkv {

struct TensorView {
  std::string dtype;  // "F32", "F16", "I8"
  std::vector<int64_t> shape;
  std::string_view data;  // row-major, little endian
};

struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::map<std::string, TensorView> tensors;
  std::string_view header;  // the JSON text
  std::string_view data;    // everything after it
};

// DATA_LOSS (CORRUPT_FILE): for everything that reads this container.
absl::Status CorruptFile(std::string_view message);

// Views into `bytes`. DATA_LOSS (CORRUPT_FILE) says what is wrong: truncated (with both sizes), no JSON, a
// tensor out of bounds, of another size than its shape says, overlapping or with holes between. Only F32, F16
// and I8 are known.
absl::StatusOr<Safetensors> ParseSafetensors(std::string_view bytes);

// Tensors are laid out in the order of the map; their data begins at a multiple of 64 bytes in the file.
std::string WriteSafetensors(const std::map<std::string, std::string>& metadata,
                             const std::map<std::string, TensorView>& tensors);

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_SAFETENSORS_H_

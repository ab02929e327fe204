// Digests: SHA-256 names things (models, predictor sets, canonical bytes), XXH3-64 guards frames.
#ifndef RISKKV_COMMON_BASE_DIGEST_H_
#define RISKKV_COMMON_BASE_DIGEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace riskkv {

// Streaming SHA-256; HexDigest() may be called once.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void Update(const void* data, std::size_t size);
  void Update(std::string_view s) { Update(s.data(), s.size()); }
  std::string HexDigest();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Sha256Hex(std::string_view bytes);
// Reads the file in pieces. NotFound or Internal name the path.
absl::StatusOr<std::string> Sha256File(const std::string& path);
uint64_t Xxh3(const void* data, std::size_t size);

}  // namespace riskkv

#endif  // RISKKV_COMMON_BASE_DIGEST_H_

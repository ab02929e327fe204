#include "common/base/digest.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {

struct Sha256::State {
  EVP_MD_CTX* ctx = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(ctx); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) { EVP_DigestInit_ex(state_->ctx, EVP_sha256(), nullptr); }
Sha256::~Sha256() = default;

void Sha256::Update(const void* data, std::size_t size) { EVP_DigestUpdate(state_->ctx, data, size); }

std::string Sha256::HexDigest() {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned int n = 0;
  EVP_DigestFinal_ex(state_->ctx, out, &n);
  std::string hex;
  for (unsigned int i = 0; i < n; ++i) hex += fmt::format("{:02x}", out[i]);
  return hex;
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.HexDigest();
}

absl::StatusOr<std::string> Sha256File(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  Sha256 sha;
  std::vector<char> buffer(1 << 20);
  while (in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    sha.Update(buffer.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) return absl::InternalError(fmt::format("read error in {}", path));
  return sha.HexDigest();
}

uint64_t Xxh3(const void* data, std::size_t size) { return XXH3_64bits(data, size); }

}  // namespace riskkv

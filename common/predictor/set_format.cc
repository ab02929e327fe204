#include "common/predictor/set_format.h"

#include "common/base/digest.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

constexpr std::size_t kDigits = 64;

// Offset of the digest's first digit in the header; npos when there is none.
std::size_t FindDigest(std::string_view header) {
  const std::string key = fmt::format("\"{}\":\"", kContentDigestKey);
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return at;
  const std::size_t begin = at + key.size();
  if (begin + kDigits >= header.size() || header[begin + kDigits] != '"') return std::string_view::npos;
  return begin;
}

}  // namespace

std::string WeightTensorName(int group) { return fmt::format("group.{}.weight", group); }
std::string BiasTensorName(int group) { return fmt::format("group.{}.bias", group); }

absl::StatusOr<ContentDigest> ReadContentDigest(const Safetensors& file) {
  const std::size_t at = FindDigest(file.header);
  if (at == std::string_view::npos) {
    return MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE",
                     fmt::format("__metadata__.{} is missing", kContentDigestKey));
  }
  Sha256 sha;
  sha.Update(file.header.substr(0, at));
  sha.Update(std::string(kDigits, '0'));
  sha.Update(file.header.substr(at + kDigits));
  sha.Update(file.data);
  return ContentDigest{std::string(file.header.substr(at, kDigits)), sha.HexDigest()};
}

absl::Status StampContentDigest(std::string& bytes) {
  std::size_t at = 0;
  std::string digest;
  {
    ASSIGN_OR_RETURN(const Safetensors file, ParseSafetensors(bytes));
    ASSIGN_OR_RETURN(const ContentDigest content, ReadContentDigest(file));
    at = static_cast<std::size_t>(file.header.data() - bytes.data()) + FindDigest(file.header);
    digest = content.computed;
  }
  bytes.replace(at, kDigits, digest);
  return absl::OkStatus();
}

}  // namespace riskkv

#include "common/codec/int8_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "fmt/format.h"
#include "kernels/fp16.h"

namespace riskkv {
namespace {

constexpr std::size_t kInt8Header = 24;
constexpr std::size_t kInt8ChecksumAt = 16;
constexpr std::size_t kScaleBytes = 2;
constexpr float kLargestInt8 = 127.0f;

uint64_t Int8Checksum(const std::string_view bytes) {
  const uint64_t parts[] = {Xxh3(bytes.data(), kInt8ChecksumAt),
                            Xxh3(bytes.data() + kInt8Header, bytes.size() - kInt8Header)};
  return Xxh3(parts, sizeof(parts));
}

// The smallest fp16 that is not below largest / 127, so that no element is cut off.
uint16_t ScaleFor(float largest) {
  const float wanted = largest / kLargestInt8;
  uint16_t half = kernels::FloatToHalf(wanted);
  if (kernels::HalfToFloat(half) < wanted) ++half;
  return half;
}

absl::Status CorruptInt8(const std::string& what) {
  return MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE", "int8 cells: " + what);
}

}  // namespace

int64_t Int8Bytes(const KvLayout& layout, int64_t tokens) {
  const int64_t heads = 2LL * layout.n_layer * layout.n_head_kv * tokens;
  return static_cast<int64_t>(kInt8Header) + heads * (static_cast<int64_t>(kScaleBytes) + layout.head_dim);
}

absl::StatusOr<std::string> EncodeInt8(const KvLayout& layout, const KvBlock& block) {
  RETURN_IF_ERROR(CheckBlock(layout, block));
  if (static_cast<int>(block.layers.size()) != layout.n_layer || block.range.empty() ||
      !kernels::AllFinite(block.data.data(), block.data.size())) {
    return absl::InvalidArgumentError(fmt::format("int8 cells: {} of {} layers, {} tokens, or an element is not finite",
                                                  block.layers.size(), layout.n_layer, block.range.size()));
  }
  const std::size_t d = static_cast<std::size_t>(layout.head_dim);
  std::string out(static_cast<std::size_t>(Int8Bytes(layout, block.range.size())), '\0');
  const uint64_t begin = static_cast<uint64_t>(block.range.begin);
  const uint32_t tokens = static_cast<uint32_t>(block.range.size());
  std::memcpy(out.data(), &begin, sizeof(begin));
  std::memcpy(out.data() + sizeof(begin), &tokens, sizeof(tokens));
  char* at = out.data() + kInt8Header;
  std::vector<float> head(d);
  for (std::size_t i = 0; i < block.data.size(); i += d) {
    kernels::HalfToFloat(block.data.data() + i, head.data(), d);
    float largest = 0;
    for (float x : head) largest = std::max(largest, std::fabs(x));
    const uint16_t scale = ScaleFor(largest);
    std::memcpy(at, &scale, kScaleBytes);
    at += kScaleBytes;
    const float inverse = scale == 0 ? 0.0f : 1.0f / kernels::HalfToFloat(scale);
    for (float x : head)
      *at++ = static_cast<char>(static_cast<int8_t>(std::clamp(std::nearbyint(x * inverse), -kLargestInt8, kLargestInt8)));
  }
  const uint64_t checksum = Int8Checksum(out);
  std::memcpy(out.data() + kInt8ChecksumAt, &checksum, sizeof(checksum));
  return out;
}

absl::StatusOr<KvBlock> DecodeInt8(const KvLayout& layout, std::string_view bytes) {
  if (bytes.size() < kInt8Header) return CorruptInt8(fmt::format("truncated: {} bytes", bytes.size()));
  uint64_t begin = 0, stated = 0;
  uint32_t tokens = 0;
  std::memcpy(&begin, bytes.data(), sizeof(begin));
  std::memcpy(&tokens, bytes.data() + sizeof(begin), sizeof(tokens));
  std::memcpy(&stated, bytes.data() + kInt8ChecksumAt, sizeof(stated));
  if (stated != Int8Checksum(bytes)) return CorruptInt8(fmt::format("checksum differs: it states {:#x}", stated));
  if (begin > std::numeric_limits<int32_t>::max() || tokens == 0 ||
      Int8Bytes(layout, tokens) != static_cast<int64_t>(bytes.size())) {
    return CorruptInt8(fmt::format("{} bytes for {} tokens from position {}", bytes.size(), tokens, begin));
  }
  const int64_t first = static_cast<int64_t>(begin);
  KvBlock block = KvBlock::Make(layout, {first, first + tokens}, AllLayers(layout));
  const std::size_t d = static_cast<std::size_t>(layout.head_dim);
  const char* at = bytes.data() + kInt8Header;
  std::vector<float> head(d);
  for (std::size_t i = 0; i < block.data.size(); i += d) {
    uint16_t half = 0;
    std::memcpy(&half, at, kScaleBytes);
    at += kScaleBytes;
    const float scale = kernels::HalfToFloat(half);
    for (float& x : head) x = scale * static_cast<float>(static_cast<int8_t>(*at++));
    kernels::FloatToHalf(head.data(), block.data.data() + i, d);
  }
  if (kernels::AllFinite(block.data.data(), block.data.size())) return block;
  return CorruptInt8("an element does not fit fp16");
}

}  // namespace riskkv

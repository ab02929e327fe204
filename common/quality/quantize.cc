#include "common/quality/quantize.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/predictor/features.h"
#include "fmt/format.h"
#include "kernels/fp16.h"

namespace riskkv {
namespace {

constexpr QuantFormat kInt8{8, false};
constexpr int64_t kHalfBytes = 2;

float ToHalfAndBack(float x) { return kernels::HalfToFloat(kernels::FloatToHalf(x)); }

// Bytes of n numbers in consecutive groups of `group`, the last one shorter.
int64_t RunBytes(const QuantFormat& format, int64_t n, int64_t group) {
  const int64_t rest = n % group;
  return n / group * QuantGroupBytes(format, group) + (rest > 0 ? QuantGroupBytes(format, rest) : 0);
}

// n numbers at `stride`, in consecutive groups.
void QuantiseRun(const QuantFormat& format, std::size_t n, std::size_t stride, std::size_t group, float* x) {
  for (std::size_t at = 0; at < n; at += group)
    QuantiseGroup(format, std::min(group, n - at), stride, x + at * stride);
}

// Puts the rows of `part` back into `block`, which holds its layers and tokens.
void PutBack(const KvBlock& part, KvBlock& block) {
  const std::size_t elements = static_cast<std::size_t>(part.range.size()) * static_cast<std::size_t>(part.kv);
  const std::size_t skip = static_cast<std::size_t>(part.range.begin - block.range.begin) * static_cast<std::size_t>(part.kv);
  for (std::size_t i = 0; i < part.layers.size(); ++i) {
    const int at = block.IndexOf(part.layers[i]);
    std::copy_n(part.k(static_cast<int>(i)), elements, block.k(at) + skip);
    std::copy_n(part.v(static_cast<int>(i)), elements, block.v(at) + skip);
  }
}

}  // namespace

int64_t QuantGroupBytes(const QuantFormat& format, int64_t n) {
  return (n * format.bits + 7) / 8 + kHalfBytes + (format.zero_point ? kHalfBytes : 0);
}

void QuantiseGroup(const QuantFormat& format, std::size_t n, std::size_t stride, float* x) {
  if (n == 0) return;
  float low = x[0], high = x[0];
  for (std::size_t i = 1; i < n; ++i) {
    low = std::min(low, x[i * stride]);
    high = std::max(high, x[i * stride]);
  }
  const float levels = static_cast<float>(format.zero_point ? (1 << format.bits) - 1 : (1 << (format.bits - 1)) - 1);
  const float zero = format.zero_point ? ToHalfAndBack(low) : 0.0f;
  const float reach = format.zero_point ? std::max(0.0f, high - zero) : std::max(std::abs(low), std::abs(high));
  const float scale = ToHalfAndBack(reach / levels);
  for (std::size_t i = 0; i < n; ++i) {
    float& value = x[i * stride];
    const float q = scale > 0 ? std::nearbyint((value - zero) / scale) : 0.0f;
    value = zero + scale * std::clamp(q, format.zero_point ? 0.0f : -levels, levels);
  }
}

absl::Status QuantiseInt8(const KvLayout& layout, TokenRange range, const std::vector<int>& layers, KvBlock& block) {
  ASSIGN_OR_RETURN(KvBlock part, Slice(block, range, layers));
  // Groups are head_dim consecutive elements, whatever the layer, part, token and head.
  std::vector<float> values(part.data.size());
  kernels::HalfToFloat(part.data.data(), values.data(), values.size());
  QuantiseRun(kInt8, values.size(), 1, static_cast<std::size_t>(layout.head_dim), values.data());
  kernels::FloatToHalf(values.data(), part.data.data(), values.size());
  PutBack(part, block);
  return absl::OkStatus();
}

int64_t Int8Bytes(const KvLayout& layout, int64_t tokens, std::size_t layers) {
  return static_cast<int64_t>(layers) * 2 * tokens * layout.n_head_kv * QuantGroupBytes(kInt8, layout.head_dim);
}

absl::Status QuantiseLowBits(const KvLayout& layout, TokenRange range, const std::vector<int>& layers,
                             const LowBits& format, KvBlock& block) {
  if (format.group < 1 || format.bits < 1 || format.bits > 8)
    return absl::InvalidArgumentError(fmt::format("{} bits in groups of {}", format.bits, format.group));
  const QuantFormat numbers{format.bits, true};
  const std::size_t group = static_cast<std::size_t>(format.group);
  ASSIGN_OR_RETURN(const KvBlock part, Slice(block, range, layers));
  ASSIGN_OR_RETURN(PreRopeBlock rows, UndoRope(layout, part));
  const std::size_t kv = static_cast<std::size_t>(rows.kv), tokens = static_cast<std::size_t>(range.size());
  for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
    for (std::size_t c = 0; c < kv; ++c) QuantiseRun(numbers, tokens, kv, group, rows.rows(i, 0) + c);
    for (std::size_t t = 0; t < tokens; ++t) QuantiseRun(numbers, kv, 1, group, rows.rows(i, 1) + t * kv);
  }
  ASSIGN_OR_RETURN(const KvBlock decoded, RedoRope(layout, rows));
  PutBack(decoded, block);
  return absl::OkStatus();
}

int64_t LowBitsBytes(const KvLayout& layout, int64_t tokens, std::size_t layers, const LowBits& format) {
  const QuantFormat numbers{format.bits, true};
  const int64_t keys = layout.kv() * RunBytes(numbers, tokens, format.group);
  const int64_t values = tokens * RunBytes(numbers, layout.kv(), format.group);
  return static_cast<int64_t>(layers) * (keys + values);
}

}  // namespace riskkv

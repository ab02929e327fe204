// The simple rivals of prediction: caches in 8 bits or fewer, decoded again. Pure functions; scales and zero points are
// fp16 and counted.
#ifndef RISKKV_COMMON_QUALITY_QUANTIZE_H_
#define RISKKV_COMMON_QUALITY_QUANTIZE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"

namespace riskkv {

// One group of n numbers x shares a scale s, and a zero point z where the format has one:
//   without:  s = fp16(max |x| / (2^(bits-1) - 1)),  q = round(x / s) within +-(2^(bits-1) - 1),     decoded q s
//   with:     z = fp16(min x), s = fp16((max x - z) / (2^bits - 1)),  q = round((x - z) / s) within [0, 2^bits - 1],
//             decoded z + q s
// A scale of zero decodes to 0, or z.
struct QuantFormat {
  int bits = 8;
  bool zero_point = false;
};

// ceil(n bits / 8) + 2 for the scale + 2 for the zero point where there is one: bytes of n numbers in one group.
int64_t QuantGroupBytes(const QuantFormat& format, int64_t n);

// Replaces x[0], x[stride], ..., x[(n - 1) stride] by what is decoded.
void QuantiseGroup(const QuantFormat& format, std::size_t n, std::size_t stride, float* x);

// int8 per token and head: for each token of `range`, each head and K (as cached, after RoPE) and V of `layers`, head_dim
// numbers are a group without zero point. INVALID_ARGUMENT when the cells are not in `block`.
absl::Status QuantiseInt8(const KvLayout& layout, TokenRange range, const std::vector<int>& layers, KvBlock& block);
// Its bytes: layers * 2 * tokens * n_head_kv * (head_dim + 2).
int64_t Int8Bytes(const KvLayout& layout, int64_t tokens, std::size_t layers);

// Fewer bits, with zero points: keys turned back to before RoPE, each of the kv channels in groups of `group`
// consecutive tokens; values, each token in groups of `group` consecutive channels. The last group of a channel or
// token may be shorter.
struct LowBits {
  int bits = 4;
  int group = 32;
};
// INVALID_ARGUMENT when the cells are not in `block`, for bits outside [1, 8] and groups below 1.
absl::Status QuantiseLowBits(const KvLayout& layout, TokenRange range, const std::vector<int>& layers,
                             const LowBits& format, KvBlock& block);
// Its bytes: layers * (kv * run(tokens) + tokens * run(kv)), run(n) the sum of QuantGroupBytes over n numbers in
// groups.
int64_t LowBitsBytes(const KvLayout& layout, int64_t tokens, std::size_t layers, const LowBits& format);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_QUANTIZE_H_

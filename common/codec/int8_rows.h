// Cells in 8 bits: the ends of a coded move, which every later token attends to. Symmetric, one fp16 scale for each
// token and head of K and V; keys as they are cached, since a rotation keeps a head's size.
#ifndef RISKKV_COMMON_CODEC_INT8_ROWS_H_
#define RISKKV_COMMON_CODEC_INT8_ROWS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"

namespace riskkv {

// Bytes of all layers over this many tokens: u64 first position, u32 tokens, u32 zero, u64 XXH3-64 of all else,
// then for each layer, part, token and head an fp16 scale and head_dim signed bytes.
int64_t Int8Bytes(const KvLayout& layout, int64_t tokens);

// `block` holds all layers. INVALID_ARGUMENT when it does not, or an element is not finite. The error of an element
// is at most a 250th of the largest of its head.
absl::StatusOr<std::string> EncodeInt8(const KvLayout& layout, const KvBlock& block);

// DATA_LOSS (CORRUPT_FILE) naming what is wrong, for any bytes; the cells are finite.
absl::StatusOr<KvBlock> DecodeInt8(const KvLayout& layout, std::string_view bytes);

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_INT8_ROWS_H_

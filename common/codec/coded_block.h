// The bytes of one coded token block. Little endian:
//
//   u32 magic 'RKC1'   u32 units        u64 position of the first token   u32 tokens (1..128)
//   u32 payload bytes  u64 context: XXH3-64 of the weights and the steps; another set or profile is refused
//   u64 checksum: XXH3-64 over all else
//   for each unit:  u32 bytes of words  u32 bytes of raw bits
//   payload: for each unit its words, then its raw bits
#ifndef RISKKV_COMMON_CODEC_CODED_BLOCK_H_
#define RISKKV_COMMON_CODEC_CODED_BLOCK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/codec/coefficient_coder.h"
#include "common/kv/layout.h"
#include "kernels/backend.h"

namespace riskkv {

// Tokens of a block at most: one tile of the matrix products.
inline constexpr int kCodedBlockTokens = kernels::kTileTokens;

struct CodedBlockHeader {
  TokenRange range;
  uint64_t context = 0;
};

// A parsed block: views into its bytes.
struct CodedBlockView {
  CodedBlockHeader header;
  struct Unit {
    std::string_view words, bits;
  };
  std::vector<Unit> units;
};

std::string WriteCodedBlock(const CodedBlockHeader& header, const std::vector<CodedChunk>& units);

// DATA_LOSS (CORRUPT_FILE) naming what is wrong: truncated, another format, a length that lies, a checksum that
// differs (with both values). Every length is checked before use, whatever the checksum says.
absl::StatusOr<CodedBlockView> ReadCodedBlock(std::string_view bytes, std::size_t units);

// Makes the checksum of bytes that were changed right again, so that tests and fuzzers reach what lies behind it.
void StampChecksum(std::string& block);

// Bytes of a block that are not payload.
std::size_t CodedBlockOverhead(std::size_t units);

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_CODED_BLOCK_H_

// The entropy coder of one unit's quantised coefficients: interleaved rANS over static tables, raw bits apart.
#ifndef RISKKV_COMMON_CODEC_COEFFICIENT_CODER_H_
#define RISKKV_COMMON_CODEC_COEFFICIENT_CODER_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/codec/frequency_tables.h"

namespace riskkv {

// Magnitudes beyond this are refused by both sides.
inline constexpr int32_t kLargestLevel = 1 << 20;

// Words of the range coder (u16 little endian, in the order they are read) and the raw bits (from the low bit
// of each byte).
struct CodedChunk {
  std::string words;
  std::string bits;
};

// q [classes.size(), tokens]: all tokens of a coefficient side by side. classes[j] is the class of
// coefficient j. OUT_OF_RANGE naming the coefficient when a magnitude is above kLargestLevel. Also counts what it
// codes into *counts [kRows][kSymbols] unless that is null.
using SymbolCounts = std::vector<std::array<int64_t, kSymbols>>;
absl::Status EncodeCoefficients(const FrequencyTables& tables, std::span<const uint8_t> classes, int tokens,
                                const int32_t* q, CodedChunk* out, SymbolCounts* counts = nullptr);

// The inverse, over bytes that may be anything: reads nothing out of bounds, writes every q with a magnitude
// of at most kLargestLevel, and is DATA_LOSS unless both parts are used up exactly and the coder ends in the
// state it must. Integers only: the result does not depend on the machine.
absl::Status DecodeCoefficients(const FrequencyTables& tables, std::span<const uint8_t> classes, int tokens,
                                std::string_view words, std::string_view bits, int32_t* q);

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_COEFFICIENT_CODER_H_

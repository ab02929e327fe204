#include "common/codec/coefficient_coder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/base/status.h"
#include "fmt/format.h"

// A state x is in [2^16, 2^32). Coding symbol s of frequency f and start c with 12-bit probabilities:
//   x' = (x / f) 2^12 + c + x mod f,  before that 16 bits are moved out while x >= f 2^20.
// Token t belongs to state t mod 4: four chains of dependent operations run side by side.
namespace riskkv {
namespace {

constexpr int kStates = 4;
constexpr uint32_t kLowest = 1u << 16;
constexpr uint32_t kSlotMask = kProbabilityScale - 1;
constexpr int kLengthBits = 5;  // of an escaped magnitude
constexpr std::size_t kStateBytes = kStates * sizeof(uint32_t);

using States = std::array<uint32_t, kStates>;

class BitWriter {
 public:
  explicit BitWriter(std::string* out) : out_(out) {}
  void Put(uint32_t value, int bits) {
    held_ |= static_cast<uint64_t>(value) << n_;
    for (n_ += bits; n_ >= 8; n_ -= 8, held_ >>= 8) out_->push_back(static_cast<char>(held_ & 0xff));
  }
  void Flush() {
    if (n_ > 0) out_->push_back(static_cast<char>(held_ & 0xff));
    held_ = 0;
    n_ = 0;
  }

 private:
  std::string* out_;
  uint64_t held_ = 0;
  int n_ = 0;
};

class BitReader {
 public:
  explicit BitReader(std::string_view in) : in_(in) {}
  // Zeros beyond the end; Exhausted() then says so.
  uint32_t Get(int bits) {
    while (n_ < bits) {
      if (at_ < in_.size()) {
        held_ |= static_cast<uint64_t>(static_cast<uint8_t>(in_[at_])) << n_;
      } else {
        overrun_ = true;
      }
      ++at_;
      n_ += 8;
    }
    const uint32_t value = static_cast<uint32_t>(held_ & ((uint64_t{1} << bits) - 1));
    held_ >>= bits;
    n_ -= bits;
    return value;
  }
  // Every byte read, none too many, and the padding is zero.
  bool EndsWell() const { return !overrun_ && at_ == in_.size() && n_ < 8 && held_ == 0; }

 private:
  std::string_view in_;
  std::size_t at_ = 0;
  uint64_t held_ = 0;
  int n_ = 0;
  bool overrun_ = false;
};

struct Coded {
  int symbol = 0;
  uint32_t raw = 0;  // low bits of magnitude - 1; unused in an escape
};

Coded ToSymbol(const FrequencyTables::Interval* row, int raw_bits, int32_t q) {
  if (q == 0 && row[0].frequency > 0) return {0, 0};
  if (q != 0) {
    const uint32_t below = static_cast<uint32_t>(std::abs(q)) - 1;
    const uint32_t bucket = below >> raw_bits;
    const int symbol = static_cast<int>(1 + 2 * bucket + (q < 0 ? 1 : 0));
    if (bucket < kBuckets && row[symbol].frequency > 0)
      return {symbol, below & ((1u << raw_bits) - 1)};
  }
  return {kEscapeSymbol, 0};
}

// The symbol a level would have if every symbol had a frequency: what tables are fitted to.
int NaturalSymbol(int raw_bits, int32_t q) {
  if (q == 0) return 0;
  const uint32_t bucket = (static_cast<uint32_t>(std::abs(q)) - 1) >> raw_bits;
  return bucket < kBuckets ? static_cast<int>(1 + 2 * bucket + (q < 0 ? 1 : 0)) : kEscapeSymbol;
}

// Sign, length, magnitude.
void PutEscape(int32_t q, BitWriter& bits) {
  const uint32_t magnitude = static_cast<uint32_t>(std::abs(q));
  const int length = std::bit_width(magnitude);
  bits.Put(q < 0 ? 1 : 0, 1);
  bits.Put(static_cast<uint32_t>(length), kLengthBits);
  bits.Put(magnitude, length);
}

int32_t GetEscape(BitReader& bits, bool* bad) {
  const bool negative = bits.Get(1) != 0;
  const uint32_t length = bits.Get(kLengthBits);
  const uint32_t magnitude = length <= 24 ? bits.Get(static_cast<int>(length)) : kLargestLevel + 1u;
  if (magnitude > static_cast<uint32_t>(kLargestLevel)) {
    *bad = true;
    return 0;
  }
  return negative ? -static_cast<int32_t>(magnitude) : static_cast<int32_t>(magnitude);
}

// Words written from the last to the first.
class WordStack {
 public:
  explicit WordStack(std::size_t most) : words_(most), at_(most) {}
  void Push(uint32_t word) { words_[--at_] = static_cast<uint16_t>(word); }
  void AppendTo(std::string* out) const {
    for (std::size_t i = at_; i < words_.size(); ++i) {
      out->push_back(static_cast<char>(words_[i] & 0xff));
      out->push_back(static_cast<char>(words_[i] >> 8));
    }
  }

 private:
  std::vector<uint16_t> words_;
  std::size_t at_;
};

absl::Status CorruptChunk(std::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE", fmt::format("coded chunk: {}", what));
}

// q of a symbol of a class without raw bits; an escape is not among them.
constexpr std::array<int8_t, kSymbols> SymbolValues() {
  std::array<int8_t, kSymbols> values{};
  for (int s = 1; s < kEscapeSymbol; ++s)
    values[s] = static_cast<int8_t>(s % 2 == 1 ? (s + 1) / 2 : -(s / 2));
  return values;
}
constexpr std::array<int8_t, kSymbols> kSymbolValues = SymbolValues();

// The class of every coefficient in a token of each offset.
struct MovedRows {
  explicit MovedRows(const FrequencyTables& tables, int c) {
    for (int o = 0; o < kOffsets; ++o) {
      row[o] = MovedClass(c, o);
      raw_bits[o] = ClassRawBits(row[o]);
      intervals[o] = tables.intervals(row[o]);
      symbols[o] = tables.symbols(row[o]);
    }
  }
  std::array<int, kOffsets> row;
  std::array<int, kOffsets> raw_bits;
  std::array<const FrequencyTables::Interval*, kOffsets> intervals;
  std::array<const uint8_t*, kOffsets> symbols;
};

// The offset of each token: a quarter octave for each doubling of a fourth in what its levels sum to, against
// what their classes promise. Within a third of a percent of trying all nine.
std::vector<uint8_t> ChooseOffsets(std::span<const uint8_t> classes, std::size_t tokens, const int32_t* q) {
  double expected = 1;
  for (uint8_t c : classes) expected += ClassMeanLevel(c);
  std::vector<int64_t> sums(tokens, 1);
  for (std::size_t j = 0; j < classes.size(); ++j) {
    for (std::size_t t = 0; t < tokens; ++t) sums[t] += std::abs(q[j * tokens + t]);
  }
  std::vector<uint8_t> offsets;
  for (int64_t sum : sums) {
    const double octaves = std::log2(static_cast<double>(sum) / expected);
    const double offset = std::clamp(std::round(4 * octaves) + kMiddleOffset, 0.0, kOffsets - 1.0);
    offsets.push_back(static_cast<uint8_t>(offset));
  }
  return offsets;
}

class Encoder {
 public:
  explicit Encoder(std::size_t symbols) : words_(symbols) { states_.fill(kLowest); }

  void Put(const FrequencyTables::Interval& interval, uint32_t& x) {
    const uint32_t f = interval.frequency;
    if (static_cast<uint64_t>(x) >= static_cast<uint64_t>(f) << (32 - kProbabilityBits)) {
      words_.Push(x & 0xffff);
      x >>= 16;
    }
    x = ((x / f) << kProbabilityBits) + x % f + interval.start;
  }
  uint32_t& state(std::size_t token) { return states_[token % kStates]; }
  void Finish(std::string* out) const {
    out->append(reinterpret_cast<const char*>(states_.data()), kStateBytes);
    words_.AppendTo(out);
  }

 private:
  WordStack words_;
  States states_;
};

class Decoder {
 public:
  Decoder(std::string_view words, std::string_view bits)
      : at_(reinterpret_cast<const unsigned char*>(words.data())), end_(at_ + words.size()), bits_(bits) {}

  // False when the bytes cannot hold the states.
  bool Begin() {
    if (static_cast<std::size_t>(end_ - at_) < kStateBytes || (end_ - at_) % 2 != 0) return false;
    std::memcpy(states_.data(), at_, kStateBytes);
    at_ += kStateBytes;
    return std::all_of(states_.begin(), states_.end(), [](uint32_t x) { return x >= kLowest; });
  }

  std::vector<uint8_t> Offsets(const FrequencyTables& tables, std::size_t tokens) {
    std::vector<uint8_t> offsets(tokens);
    for (std::size_t t = 0; t < tokens; ++t) {
      const uint32_t symbol = Next(tables.symbols(kOffsetRow), tables.intervals(kOffsetRow), states_[t % kStates]);
      bad_ = bad_ || symbol >= kOffsets;
      offsets[t] = static_cast<uint8_t>(std::min<uint32_t>(symbol, kOffsets - 1));
    }
    return offsets;
  }

  void Row(const MovedRows& rows, std::span<const uint8_t> offsets, int32_t* q) {
    std::size_t t = 0;
    for (; t + kStates <= offsets.size(); t += kStates) {
      for (std::size_t i = 0; i < kStates; ++i) q[t + i] = Level(rows, offsets[t + i], states_[i]);
    }
    for (std::size_t i = 0; t < offsets.size(); ++t, ++i) q[t] = Level(rows, offsets[t], states_[i]);
  }

  bool EndsWell() const {
    return !bad_ && at_ == end_ && bits_.EndsWell() &&
           std::all_of(states_.begin(), states_.end(), [](uint32_t x) { return x == kLowest; });
  }

 private:
  uint32_t Next(const uint8_t* symbols, const FrequencyTables::Interval* intervals, uint32_t& state) {
    uint32_t x = state;
    const uint32_t slot = x & kSlotMask, symbol = symbols[slot];
    const FrequencyTables::Interval interval = intervals[symbol];
    x = interval.frequency * (x >> kProbabilityBits) + slot - interval.start;
    if (x < kLowest) {
      if (at_ != end_) {
        x = x << 16 | at_[0] | static_cast<uint32_t>(at_[1]) << 8;
        at_ += 2;
      } else {
        bad_ = true;
        x = kLowest;
      }
    }
    state = x;
    return symbol;
  }

  int32_t Level(const MovedRows& rows, uint8_t offset, uint32_t& state) {
    const uint32_t symbol = Next(rows.symbols[offset], rows.intervals[offset], state);
    if (symbol == kEscapeSymbol) return GetEscape(bits_, &bad_);
    const int raw_bits = rows.raw_bits[offset];
    if (raw_bits == 0 || symbol == 0) return kSymbolValues[symbol];
    const uint32_t bucket = (symbol - 1) / 2;
    const int32_t magnitude = static_cast<int32_t>((bucket << raw_bits) + bits_.Get(raw_bits) + 1);
    return symbol % 2 == 1 ? magnitude : -magnitude;
  }

  States states_{};
  const unsigned char* at_;
  const unsigned char* end_;
  BitReader bits_;
  bool bad_ = false;
};

absl::Status PutRawBits(const FrequencyTables& tables, std::span<const uint8_t> classes,
                        std::span<const uint8_t> offsets, const int32_t* q, CodedChunk* out, SymbolCounts* counts) {
  BitWriter bits(&out->bits);
  const std::size_t n = offsets.size();
  for (std::size_t j = 0; j < classes.size(); ++j) {
    const MovedRows rows(tables, classes[j]);
    for (std::size_t t = 0; t < n; ++t) {
      const int32_t value = q[j * n + t];
      if (value > kLargestLevel || value < -kLargestLevel) {
        return absl::OutOfRangeError(
            fmt::format("coefficient {} of token {} is {} steps (at most {})", j, t, value, kLargestLevel));
      }
      const uint8_t o = offsets[t];
      const Coded coded = ToSymbol(rows.intervals[o], rows.raw_bits[o], value);
      if (counts != nullptr) ++(*counts)[rows.row[o]][NaturalSymbol(rows.raw_bits[o], value)];
      if (coded.symbol == kEscapeSymbol) {
        PutEscape(value, bits);
      } else if (rows.raw_bits[o] > 0 && coded.symbol != 0) {
        bits.Put(coded.raw, rows.raw_bits[o]);
      }
    }
  }
  bits.Flush();
  return absl::OkStatus();
}

}  // namespace

absl::Status EncodeCoefficients(const FrequencyTables& tables, std::span<const uint8_t> classes, int tokens,
                                const int32_t* q, CodedChunk* out, SymbolCounts* counts) {
  out->words.clear();
  out->bits.clear();
  const std::size_t n = static_cast<std::size_t>(tokens);
  if (counts != nullptr) counts->resize(kRows);
  const std::vector<uint8_t> offsets = ChooseOffsets(classes, n, q);
  RETURN_IF_ERROR(PutRawBits(tables, classes, offsets, q, out, counts));
  // What is decoded first is coded last. At most one word a symbol: a state is below 2^32 and a frequency is not 0.
  Encoder encoder((classes.size() + 1) * n);
  for (std::size_t j = classes.size(); j-- > 0;) {
    const MovedRows rows(tables, classes[j]);
    for (std::size_t t = n; t-- > 0;) {
      const uint8_t o = offsets[t];
      const int symbol = ToSymbol(rows.intervals[o], rows.raw_bits[o], q[j * n + t]).symbol;
      encoder.Put(rows.intervals[o][symbol], encoder.state(t));
    }
  }
  for (std::size_t t = n; t-- > 0;) {
    encoder.Put(tables.interval(kOffsetRow, offsets[t]), encoder.state(t));
    if (counts != nullptr) ++(*counts)[kOffsetRow][offsets[t]];
  }
  encoder.Finish(&out->words);
  return absl::OkStatus();
}

absl::Status DecodeCoefficients(const FrequencyTables& tables, std::span<const uint8_t> classes, int tokens,
                                std::string_view words, std::string_view bits, int32_t* q) {
  Decoder decoder(words, bits);
  if (!decoder.Begin())
    return CorruptChunk(fmt::format("{} bytes do not begin with the coder's states", words.size()));
  const std::vector<uint8_t> offsets = decoder.Offsets(tables, static_cast<std::size_t>(tokens));
  for (std::size_t j = 0; j < classes.size(); ++j) decoder.Row(MovedRows(tables, classes[j]), offsets, q + j * offsets.size());
  if (decoder.EndsWell()) return absl::OkStatus();
  return CorruptChunk(
      fmt::format("{} bytes and {} bytes of raw bits do not end with the last of {} coefficients of {} tokens",
                  words.size(), bits.size(), classes.size(), tokens));
}

}  // namespace riskkv

// Static tables of the entropy coder: one for each class of a coefficient's scale relative to the quantiser's
// step.
#ifndef RISKKV_COMMON_CODEC_FREQUENCY_TABLES_H_
#define RISKKV_COMMON_CODEC_FREQUENCY_TABLES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

namespace riskkv {

// A quantised coefficient q is coded as one symbol: 0 is q = 0; 1 + 2j and 2 + 2j are +/- of bucket j, the
// magnitudes 1 + j 2^s .. (j + 1) 2^s with s the class's raw bits, which follow apart; kEscapeSymbol is
// everything else.
inline constexpr int kSymbols = 64;
inline constexpr int kEscapeSymbol = kSymbols - 1;
inline constexpr int kBuckets = (kSymbols - 2) / 2;
inline constexpr int kProbabilityBits = 12;
inline constexpr int kProbabilityScale = 1 << kProbabilityBits;

// Classes are a quarter octave apart: class c stands for a Laplace scale of 2^((c - 16) / 4) steps.
inline constexpr int kClasses = 64;

// Each token has a scale of its own in each unit, sent as one symbol: its coefficients' classes move by
// symbol - kMiddleOffset. Residuals of one token are large or small together; this is worth a twelfth of the size.
inline constexpr int kOffsets = 9;
inline constexpr int kMiddleOffset = kOffsets / 2;
// The row of the tables those symbols are coded with.
inline constexpr int kOffsetRow = kClasses;
inline constexpr int kRows = kClasses + 1;

// The dead zone: |r| / step below this is 0, and m from m - 1 + kDeadZone on.
inline constexpr float kDeadZone = 0.6f;

// The class of a coefficient of this variance (of the unit's own scale) at this step: exact arithmetic only,
// so that both sides agree whatever their libraries. Values beyond the last class get it.
int ClassOf(float variance, float step);
// Laplace scale of a class in steps, the raw bits that follow its symbols, the mean magnitude of its levels.
double ClassScale(int c);
int ClassRawBits(int c);
double ClassMeanLevel(int c);
// The class of a coefficient in a token of this offset.
inline int MovedClass(int c, int offset) {
  const int moved = c + offset - kMiddleOffset;
  return moved < 0 ? 0 : moved >= kClasses ? kClasses - 1 : moved;
}

// Probability of each symbol of a Laplace source of `scale` steps, with the raw bits of a class.
std::array<double, kSymbols> LaplaceProbabilities(double scale, int raw_bits);

// Bits of a quantised value under the unrounded Laplace source of this variance: the ideal static code length
// (../shared/reference/coded.py, code_length).
double IdealBits(int32_t q, float variance, float step);

// Immutable, thread-safe. kRows rows of frequencies, integers that sum to kProbabilityScale in each; a symbol of
// frequency zero is written as an escape, whose frequency is never zero. In kOffsetRow every offset has one.
class FrequencyTables {
 public:
  using Row = std::array<uint16_t, kSymbols>;

  // INVALID_ARGUMENT naming the class when its row is not as said above.
  static absl::StatusOr<std::shared_ptr<const FrequencyTables>> Create(const std::vector<Row>& rows);
  // Rounds probabilities so that the rest holds.
  static Row Round(const std::array<double, kSymbols>& probabilities);
  // Rows of all classes from the Laplace source, and offsets that fall off by half from the middle.
  static std::vector<Row> LaplaceRows();
  // Rows from what was seen, counts[row][symbol], where little was seen by the Laplace ones.
  static std::vector<Row> FitRows(const std::vector<std::array<int64_t, kSymbols>>& counts);

  const std::vector<Row>& rows() const { return rows_; }
  struct Interval {
    uint16_t start = 0, frequency = 0;
  };
  const Interval& interval(int row, int symbol) const {
    return intervals_[static_cast<std::size_t>(row) * kSymbols + symbol];
  }

  // For the decoder, [kProbabilityScale] of a row: the symbol of each slot.
  const uint8_t* symbols(int row) const {
    return symbols_.data() + (static_cast<std::size_t>(row) << kProbabilityBits);
  }
  const Interval* intervals(int row) const { return intervals_.data() + static_cast<std::size_t>(row) * kSymbols; }

 private:
  FrequencyTables() = default;
  std::vector<Row> rows_;
  std::vector<Interval> intervals_;
  std::vector<uint8_t> symbols_;
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_FREQUENCY_TABLES_H_

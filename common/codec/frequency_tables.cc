#include "common/codec/frequency_tables.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

namespace riskkv {
namespace {

constexpr int kClassOfOneStep = 16;
constexpr int kClassesPerOctave = 4;
// Above this scale a class's buckets hold several magnitudes: 31 buckets then reach beyond 31 / 4 scales.
constexpr double kWidestBucketScale = 4.0;

// Observations that the Laplace row counts for beside what was seen.
constexpr double kPriorCount = 64;

// variance / step^2 at the upper border of class c, which lies half a class above its scale b, with the
// variance of a Laplace source 2 b^2: 2 * 2^((c - 16 + 1/2) / 2). Built by exact scaling.
double UpperVariance(int c) {
  constexpr double kQuarter = 1.189207115002721;       // 2^(1/4)
  constexpr double kThreeQuarters = 1.681792830507429;  // 2^(3/4)
  const int k = c - kClassOfOneStep;
  const int half = k >= 0 ? k / 2 : -((1 - k) / 2);
  return std::ldexp(k - 2 * half == 0 ? kQuarter : kThreeQuarters, half + 1);
}

std::array<double, kClasses> UpperVariances() {
  std::array<double, kClasses> upper{};
  for (int c = 0; c < kClasses; ++c) upper[c] = UpperVariance(c);
  return upper;
}

}  // namespace

int ClassOf(float variance, float step) {
  static const std::array<double, kClasses> kUpper = UpperVariances();
  const double squared = static_cast<double>(step) * static_cast<double>(step);
  const auto above = std::find_if(kUpper.begin(), kUpper.end(), [&](double u) {
    return static_cast<double>(variance) <= u * squared;
  });
  return std::min<int>(static_cast<int>(above - kUpper.begin()), kClasses - 1);
}

double ClassScale(int c) {
  return std::exp2(static_cast<double>(c - kClassOfOneStep) / kClassesPerOctave);
}

int ClassRawBits(int c) {
  int bits = 0;
  // In whole classes, so that no library's rounding matters.
  for (int k = c - kClassOfOneStep - 2 * kClassesPerOctave; k > 0; k -= kClassesPerOctave) ++bits;
  return bits;
}

double ClassMeanLevel(int c) {
  const double scale = ClassScale(c);
  return std::exp(-static_cast<double>(kDeadZone) / scale) / -std::expm1(-1.0 / scale);
}

std::array<double, kSymbols> LaplaceProbabilities(double scale, int raw_bits) {
  const double zero = 1.0 - std::exp(-static_cast<double>(kDeadZone) / scale);
  const double bucket = std::exp(-std::ldexp(1.0, raw_bits) / scale);
  std::array<double, kSymbols> p{};
  p[0] = zero;
  double reach = 1.0 - zero;  // probability of bucket j and beyond, both signs
  for (int j = 0; j < kBuckets; ++j) {
    p[1 + 2 * j] = p[2 + 2 * j] = 0.5 * reach * (1.0 - bucket);
    reach *= bucket;
  }
  p[kEscapeSymbol] = reach;
  return p;
}

double IdealBits(int32_t q, float variance, float step) {
  const double b = std::sqrt(static_cast<double>(variance) / 2);
  const double zero = 1.0 - std::exp(-static_cast<double>(kDeadZone) * step / b);
  double log_p = 0;
  if (q == 0) {
    log_p = std::log(zero);
  } else {
    const double theta = std::exp(-static_cast<double>(step) / b);
    log_p = std::log(0.5 * (1 - zero) * (1 - theta)) - (std::abs(static_cast<double>(q)) - 1) * step / b;
  }
  return std::min(-log_p / std::log(2.0), -std::log2(1e-12));
}

FrequencyTables::Row FrequencyTables::Round(const std::array<double, kSymbols>& probabilities) {
  Row row{};
  int total = 0, largest = 0;
  for (int s = 0; s < kSymbols; ++s) {
    row[s] = static_cast<uint16_t>(std::lround(probabilities[s] * kProbabilityScale));
    if (s == kEscapeSymbol && row[s] == 0) row[s] = 1;
    total += row[s];
    if (row[s] > row[largest]) largest = s;
  }
  // The rest goes to the likeliest symbol, where it changes the probability least.
  row[largest] = static_cast<uint16_t>(row[largest] + kProbabilityScale - total);
  return row;
}

std::vector<FrequencyTables::Row> FrequencyTables::LaplaceRows() {
  std::vector<Row> rows;
  for (int c = 0; c < kClasses; ++c) rows.push_back(Round(LaplaceProbabilities(ClassScale(c), ClassRawBits(c))));
  std::array<double, kSymbols> offsets{};
  double total = 0;
  for (int o = 0; o < kOffsets; ++o) total += offsets[o] = std::ldexp(1.0, -std::abs(o - kMiddleOffset));
  for (double& p : offsets) p /= total;
  rows.push_back(Round(offsets));
  return rows;
}

std::vector<FrequencyTables::Row> FrequencyTables::FitRows(
    const std::vector<std::array<int64_t, kSymbols>>& counts) {
  std::vector<Row> rows = LaplaceRows();
  for (std::size_t r = 0; r < rows.size() && r < counts.size(); ++r) {
    double seen = 0;
    for (int64_t n : counts[r]) seen += static_cast<double>(n);
    std::array<double, kSymbols> p{};
    for (int s = 0; s < kSymbols; ++s) {
      const double expected = static_cast<double>(rows[r][s]) / kProbabilityScale;
      p[s] = (static_cast<double>(counts[r][s]) + kPriorCount * expected) / (seen + kPriorCount);
    }
    if (r == kOffsetRow) {
      for (int o = 0; o < kOffsets; ++o) p[o] = std::max(p[o], 1.0 / kProbabilityScale);
    }
    rows[r] = Round(p);
  }
  return rows;
}

absl::StatusOr<std::shared_ptr<const FrequencyTables>> FrequencyTables::Create(const std::vector<Row>& rows) {
  if (rows.size() != kRows) {
    return absl::InvalidArgumentError(fmt::format("{} rows of frequencies, wanted {}", rows.size(), kRows));
  }
  std::shared_ptr<FrequencyTables> tables(new FrequencyTables);
  tables->rows_ = rows;
  tables->intervals_.resize(static_cast<std::size_t>(kRows) * kSymbols);
  tables->symbols_.resize(static_cast<std::size_t>(kRows) << kProbabilityBits);
  for (int r = 0; r < kRows; ++r) {
    const Row& row = rows[static_cast<std::size_t>(r)];
    uint32_t total = 0;
    for (uint16_t f : row) total += f;
    const bool offsets_there = r != kOffsetRow || std::find(row.begin(), row.begin() + kOffsets, 0) == row.begin() + kOffsets;
    if (total != kProbabilityScale || row[kEscapeSymbol] == 0 || !offsets_there) {
      return absl::InvalidArgumentError(
          fmt::format("row {}: frequencies sum to {} (wanted {}), the escape has {}, or an offset none", r, total,
                      kProbabilityScale, row[kEscapeSymbol]));
    }
    uint8_t* symbol = tables->symbols_.data() + (static_cast<std::size_t>(r) << kProbabilityBits);
    uint32_t at = 0;
    for (int s = 0; s < kSymbols; ++s) {
      tables->intervals_[static_cast<std::size_t>(r) * kSymbols + s] = {static_cast<uint16_t>(at), row[s]};
      std::fill_n(symbol + at, row[s], static_cast<uint8_t>(s));
      at += row[s];
    }
  }
  return std::shared_ptr<const FrequencyTables>(std::move(tables));
}

}  // namespace riskkv

#include "common/codec/coefficient_coder.h"

#include <cmath>
#include <random>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::testing::HasSubstr;
using ::riskkv::testing::IsOk;
using ::riskkv::testing::StatusIs;

std::shared_ptr<const FrequencyTables> LaplaceTables() { return *FrequencyTables::Create(FrequencyTables::LaplaceRows()); }

// Levels of a Laplace source of variance v at step 1, each token of its own loudness.
std::vector<int32_t> Draw(std::mt19937& random, const std::vector<float>& variance, int tokens, double spread) {
  std::exponential_distribution<double> exponential;
  std::vector<double> loudness(static_cast<std::size_t>(tokens));
  for (double& l : loudness) l = std::exp2(std::normal_distribution<double>(0, spread)(random));
  std::vector<int32_t> q;
  for (float v : variance) {
    for (int t = 0; t < tokens; ++t) {
      const double r = exponential(random) * std::sqrt(v / 2) * loudness[static_cast<std::size_t>(t)];
      const int32_t level = static_cast<int32_t>(r + 1 - kDeadZone);
      q.push_back(random() % 2 == 0 ? level : -level);
    }
  }
  return q;
}

std::vector<uint8_t> ClassesAtStepOne(const std::vector<float>& variance) {
  std::vector<uint8_t> classes;
  for (float v : variance) classes.push_back(static_cast<uint8_t>(ClassOf(v, 1.0f)));
  return classes;
}

TEST(FrequencyTables, AClassIsThatOfItsOwnScale) {
  for (int c = 0; c < kClasses; ++c) {
    const double scale = ClassScale(c);
    EXPECT_EQ(ClassOf(static_cast<float>(2 * scale * scale), 1.0f), c);
    EXPECT_EQ(ClassOf(static_cast<float>(2 * scale * scale * 0.01), 0.1f), c);
  }
  EXPECT_EQ(ClassOf(0.0f, 1.0f), 0);
  EXPECT_EQ(ClassOf(1e30f, 1e-3f), kClasses - 1);
}

TEST(FrequencyTables, RowsThatDoNotSumOrLackTheEscapeAreRefused) {
  std::vector<FrequencyTables::Row> rows = FrequencyTables::LaplaceRows();
  rows[5][0]++;
  EXPECT_THAT(FrequencyTables::Create(rows), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("row 5")));
  rows = FrequencyTables::LaplaceRows();
  rows[9][0] = static_cast<uint16_t>(rows[9][0] + rows[9][kEscapeSymbol]);
  rows[9][kEscapeSymbol] = 0;
  EXPECT_THAT(FrequencyTables::Create(rows), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("row 9")));
  rows = FrequencyTables::LaplaceRows();
  rows[kOffsetRow][4] = static_cast<uint16_t>(rows[kOffsetRow][4] + rows[kOffsetRow][0]);
  rows[kOffsetRow][0] = 0;
  EXPECT_THAT(FrequencyTables::Create(rows), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("offset")));
  rows.pop_back();
  EXPECT_THAT(FrequencyTables::Create(rows), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("wanted 65")));
}

TEST(CoefficientCoder, LevelsOfEveryShapeAndSizeComeBack) {
  const auto tables = LaplaceTables();
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    const int width = 1 + static_cast<int>(random() % 40), tokens = 1 + static_cast<int>(random() % 128);
    std::vector<float> variance;
    for (int j = 0; j < width; ++j) variance.push_back(std::exp2(static_cast<float>(random() % 30) - 12));
    std::vector<int32_t> q = Draw(random, variance, tokens, trial % 3);
    // Now and then something no table expects.
    if (trial % 2 == 0) q[random() % q.size()] = static_cast<int32_t>(random() % (2 * kLargestLevel)) - kLargestLevel;
    q[random() % q.size()] = trial % 4 < 2 ? kLargestLevel : -kLargestLevel;
    CodedChunk chunk;
    ASSERT_THAT(EncodeCoefficients(*tables, ClassesAtStepOne(variance), tokens, q.data(), &chunk), IsOk());
    std::vector<int32_t> back(q.size(), 99);
    ASSERT_THAT(DecodeCoefficients(*tables, ClassesAtStepOne(variance), tokens, chunk.words, chunk.bits, back.data()), IsOk());
    ASSERT_EQ(back, q) << "trial " << trial;
  }
}

TEST(CoefficientCoder, ALevelTooLargeIsRefused) {
  const auto tables = LaplaceTables();
  const std::vector<uint8_t> classes = {20};
  const int32_t q = kLargestLevel + 1;
  CodedChunk chunk;
  EXPECT_THAT(EncodeCoefficients(*tables, classes, 1, &q, &chunk),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("1048577")));
}

// Real bytes against the ideal code length of the static source, over the scales that matter.
TEST(CoefficientCoder, SizeIsWithinThreePercentOfTheIdealStaticLength) {
  const auto tables = LaplaceTables();
  std::mt19937 random(11);
  for (const float centre : {-3.0f, -1.0f, 0.0f, 4.0f, 10.0f}) {
    constexpr int kTokens = 128;
    std::vector<float> variance;
    for (int j = 0; j < 768; ++j) variance.push_back(std::exp2(centre + 3 - 6 * static_cast<float>(j) / 768));
    const std::vector<int32_t> q = Draw(random, variance, kTokens, 0);
    double ideal = 0;
    for (std::size_t i = 0; i < q.size(); ++i) ideal += IdealBits(q[i], variance[i / kTokens], 1.0f);
    CodedChunk chunk;
    ASSERT_THAT(EncodeCoefficients(*tables, ClassesAtStepOne(variance), kTokens, q.data(), &chunk), IsOk());
    EXPECT_LT(8.0 * static_cast<double>(chunk.words.size() + chunk.bits.size()), 1.03 * ideal) << "2^" << centre;
  }
}

// What the offsets are for: tokens of unlike loudness cost less than under tables that know nothing of it.
TEST(CoefficientCoder, TokensOfUnlikeLoudnessCostLessThanTheStaticLength) {
  const auto tables = LaplaceTables();
  std::mt19937 random(12);
  const std::vector<float> variance(768, 4.0f);
  const std::vector<int32_t> q = Draw(random, variance, 128, 1.0);
  double ideal = 0;
  for (int32_t level : q) ideal += IdealBits(level, 4.0f, 1.0f);
  CodedChunk chunk;
  ASSERT_THAT(EncodeCoefficients(*tables, ClassesAtStepOne(variance), 128, q.data(), &chunk), IsOk());
  EXPECT_LT(8.0 * static_cast<double>(chunk.words.size() + chunk.bits.size()), 0.95 * ideal);
}

TEST(CoefficientCoder, FittedTablesCodeTheirSourceInLess) {
  std::mt19937 random(13);
  std::vector<int32_t> q;
  for (int i = 0; i < 256 * 128; ++i) q.push_back(static_cast<int32_t>(random() % 3) - 1);  // no Laplace source
  const std::vector<uint8_t> classes(256, 16);
  const auto laplace = LaplaceTables();
  CodedChunk before, after;
  SymbolCounts counts;
  ASSERT_THAT(EncodeCoefficients(*laplace, classes, 128, q.data(), &before, &counts), IsOk());
  const auto fitted = FrequencyTables::Create(FrequencyTables::FitRows(counts));
  ASSERT_THAT(fitted, IsOk());
  ASSERT_THAT(EncodeCoefficients(**fitted, classes, 128, q.data(), &after), IsOk());
  EXPECT_LT(after.words.size(), before.words.size() * 95 / 100);
}

TEST(CoefficientCoder, DamagedBytesAreAnErrorOrOtherLevelsButNeverOutOfBounds) {
  const auto tables = LaplaceTables();
  std::mt19937 random(4);
  std::vector<float> variance;
  for (int j = 0; j < 30; ++j) variance.push_back(std::exp2(static_cast<float>(j) - 10));
  const std::vector<uint8_t> classes = ClassesAtStepOne(variance);
  CodedChunk chunk;
  const std::vector<int32_t> q = Draw(random, variance, 37, 1);
  ASSERT_THAT(EncodeCoefficients(*tables, classes, 37, q.data(), &chunk), IsOk());
  std::vector<int32_t> back(q.size());
  auto decode = [&](const std::string& words, const std::string& bits) {
    return DecodeCoefficients(*tables, classes, 37, words, bits, back.data());
  };
  EXPECT_THAT(decode("", ""), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(decode(chunk.words.substr(0, 15), chunk.bits), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(decode(chunk.words.substr(0, chunk.words.size() - 2), chunk.bits), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(decode(chunk.words + "ab", chunk.bits), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(decode(chunk.words, chunk.bits + "a"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(decode(chunk.words, chunk.bits.substr(1)), StatusIs(absl::StatusCode::kDataLoss));
  for (int trial = 0; trial < 2000; ++trial) {
    std::string words = chunk.words, bits = chunk.bits;
    std::string& damaged = trial % 3 == 0 ? bits : words;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    (void)decode(words, bits);
    for (int32_t level : back) ASSERT_LE(std::abs(level), kLargestLevel);
  }
}

}  // namespace
}  // namespace riskkv

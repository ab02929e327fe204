#include "common/quality/bootstrap.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "common/quality/random.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace riskkv {
namespace {

std::vector<PairedDelta> Deltas(int articles, int windows, double mean, double between, double within) {
  Random random(99);
  auto normal = [&] {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.Next() >> 11) * 0x1.0p-53;
    return sum;
  };
  std::vector<PairedDelta> out;
  for (int a = 0; a < articles; ++a) {
    const double level = mean + between * normal();
    for (int w = 0; w < windows; ++w) out.push_back({a, level + within * normal()});
  }
  return out;
}

TEST(Bootstrap, IsDeterministicAndStated) {
  const auto deltas = Deltas(6, 4, 0.002, 0.01, 0.01);
  const RiskStats a = Summarise(deltas, {10000, 1}), b = Summarise(deltas, {10000, 1}),
                  c = Summarise(deltas, {10000, 2});
  EXPECT_EQ(a.upper90, b.upper90);
  EXPECT_EQ(a.low95, b.low95);
  EXPECT_NE(a.upper90, c.upper90);
  EXPECT_NEAR(a.upper90, c.upper90, 5e-4);
  EXPECT_LT(a.low95, a.mean);
  EXPECT_LT(a.mean, a.upper90);
  EXPECT_LT(a.upper90, a.high95);
  EXPECT_EQ(a.windows, 24);
  EXPECT_EQ(a.articles, 6);
}

// The generator is part of the method: these numbers must never move.
TEST(Bootstrap, KeepsItsNumbers) {
  Random random(1);
  EXPECT_EQ(random.Next(), 0x910a2dec89025cc1u);
  EXPECT_EQ(random.Next(), 0xbeeb8da1658eec67u);
}

// With one window an article it is the plain bootstrap: the bound is near mean + 1.2816 standard errors.
TEST(Bootstrap, AgreesWithTheNormalBoundForIndependentWindows) {
  const auto deltas = Deltas(60, 1, 0, 0, 1);
  const RiskStats s = Summarise(deltas, {10000, 1});
  double variance = 0;
  for (const PairedDelta& d : deltas) variance += (d.value - s.mean) * (d.value - s.mean) / 60;
  const double error = std::sqrt(variance / 60);
  EXPECT_NEAR(s.upper90, s.mean + 1.2816 * error, 0.1 * error);
  EXPECT_NEAR(s.low95, s.mean - 1.96 * error, 0.15 * error);
}

// The numpy reference resamples with a generator of its own, so the two agree as far as 50,000 resamples know a bound.
TEST(Bootstrap, TheUpperBoundIsThatOfTheReference) {
  const char* shared = std::getenv("RISKKV_SHARED");
  const char* python = std::getenv("RISKKV_PYTHON");
  const std::string interpreter = python != nullptr ? python : "python3";
  if (shared == nullptr || std::system((interpreter + " -c 'import numpy' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "RISKKV_SHARED is not set, or no python3 with numpy";
  const auto deltas = Deltas(40, 1, 0.002, 0, 0.01);
  std::vector<double> values;
  for (const PairedDelta& d : deltas) values.push_back(d.value);
  FILE* pipe = popen(fmt::format("{} -c 'import sys; sys.path.insert(0, \"{}/reference\"); import riskkv; "
                                 "print(riskkv.ucb([{}], 0.90, 50000, 3))'",
                                 interpreter, shared, fmt::join(values, ","))
                         .c_str(),
                     "r");
  ASSERT_NE(pipe, nullptr);
  double expected = 0;
  const int read = std::fscanf(pipe, "%lf", &expected);
  EXPECT_EQ(pclose(pipe), 0);
  ASSERT_EQ(read, 1);
  const RiskStats s = Summarise(deltas, {50000, 1});
  EXPECT_NEAR(s.upper90, expected, 0.05 * (s.upper90 - s.mean));
}

// Windows of one article that move together must not count as independent evidence.
TEST(Bootstrap, ArticlesAreTheUnit) {
  const auto dependent = Deltas(6, 20, 0, 0.01, 0.0);
  std::vector<PairedDelta> pretended = dependent;
  for (std::size_t i = 0; i < pretended.size(); ++i) pretended[i].article = static_cast<int>(i);
  const RiskStats honest = Summarise(dependent, {10000, 1}), naive = Summarise(pretended, {10000, 1});
  EXPECT_DOUBLE_EQ(honest.mean, naive.mean);
  EXPECT_GT(honest.high95 - honest.low95, 3 * (naive.high95 - naive.low95));
}

TEST(Bootstrap, QuantilesAreOverWindowsNotOverMeans) {
  std::vector<PairedDelta> deltas;
  for (int i = 0; i <= 100; ++i) deltas.push_back({i % 7, 0.01 * ((i * 37) % 101)});
  const RiskStats s = Summarise(deltas, {100, 1});
  EXPECT_NEAR(s.p50, 0.50, 1e-12);
  EXPECT_NEAR(s.p90, 0.90, 1e-12);
  EXPECT_NEAR(s.p99, 0.99, 1e-12);
  EXPECT_NEAR(s.worst, 1.00, 1e-12);
}

TEST(Bootstrap, EdgeCases) {
  EXPECT_EQ(Summarise({}, {}).windows, 0);
  const std::vector<PairedDelta> one = {{0, 0.25}};
  const RiskStats s = Summarise(one, {});
  EXPECT_EQ(s.mean, 0.25);
  EXPECT_EQ(s.upper90, 0.25);
  EXPECT_EQ(s.worst, 0.25);
  const std::vector<double> v = {0, 1, 2, 3};
  EXPECT_EQ(Quantile(v, 0), 0);
  EXPECT_EQ(Quantile(v, 1), 3);
  EXPECT_EQ(Quantile(v, 0.5), 1.5);
}

}  // namespace
}  // namespace riskkv

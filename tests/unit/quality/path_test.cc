#include "common/quality/path.h"

#include <numeric>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

RiskStats Stats(double mean, double upper90, int windows = 10) {
  RiskStats s;
  s.mean = mean;
  s.upper90 = upper90;
  s.windows = windows;
  return s;
}

TEST(OrderByRisk, CountsRiskPerByte) {
  EXPECT_EQ(OrderByRisk({0.3, -0.1, 0.2}, {1, 1, 1}), (std::vector<int>{1, 2, 0}));
  EXPECT_EQ(OrderByRisk({0.3, 0.2}, {2, 1}), (std::vector<int>{0, 1}));
  EXPECT_EQ(OrderByRisk({0.1, 0.1, 0.1}, {1, 1, 1}), (std::vector<int>{0, 1, 2}));
}

TEST(FollowPath, EvaluatesSinglesAndJointPrefixes) {
  const std::vector<double> risk = {0.03, 0.01, 0.02};
  std::vector<std::string> asked;
  auto evaluate = [&](const std::vector<int>& groups) -> absl::StatusOr<RiskStats> {
    asked.push_back(fmt::format("{}", fmt::join(groups, "+")));
    double sum = 0;
    for (int g : groups) sum += risk[static_cast<std::size_t>(g)];
    return Stats(sum, sum + 0.01);
  };
  ASSERT_OK_AND_ASSIGN(const RiskPath path, FollowPath({100, 100, 100}, evaluate));
  EXPECT_EQ(asked, (std::vector<std::string>{"0", "1", "2", "1+2", "0+1+2"}));
  EXPECT_EQ(path.order, (std::vector<int>{1, 2, 0}));
  ASSERT_EQ(path.prefixes.size(), 3u);
  EXPECT_EQ(path.prefixes[0].select.mean, 0.01);
  EXPECT_EQ(path.prefixes[2].groups, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(path.prefixes[2].bytes_saved, 300);
  auto fails = [](const std::vector<int>&) -> absl::StatusOr<RiskStats> { return absl::CancelledError("x"); };
  EXPECT_FALSE(FollowPath({1}, fails).ok());
}

TEST(Admissible, EachGateOnItsOwnNumber) {
  EXPECT_TRUE(Admissible(Gate::kMean, 0.002, Stats(0.002, 0.1), nullptr));
  EXPECT_FALSE(Admissible(Gate::kMean, 0.002, Stats(0.0021, 0), nullptr));
  EXPECT_FALSE(Admissible(Gate::kUpper90, 0.002, Stats(0.001, 0.003), nullptr));
  EXPECT_TRUE(Admissible(Gate::kUpper90, 0.002, Stats(0.001, 0.002), nullptr));
  const RiskStats good = Stats(0, 0.001), bad = Stats(0, 0.01);
  EXPECT_TRUE(Admissible(Gate::kStableSplit, 0.002, good, &good));
  EXPECT_FALSE(Admissible(Gate::kStableSplit, 0.002, good, &bad));
  EXPECT_FALSE(Admissible(Gate::kStableSplit, 0.002, bad, &good));
  EXPECT_FALSE(Admissible(Gate::kStableSplit, 0.002, good, nullptr));
  EXPECT_FALSE(Admissible(Gate::kMean, 0.002, RiskStats{}, nullptr)) << "nothing measured";
  EXPECT_FALSE(Admissible(Gate::kUpper90, 0.002, Stats(0, 0, 5), nullptr)) << "five windows say nothing";
  const RiskStats few = Stats(0, 0, 2);
  EXPECT_FALSE(Admissible(Gate::kStableSplit, 0.002, good, &few));
  EXPECT_FALSE(
      Admissible(Gate::kUpper90, 0.002, Stats(0, std::numeric_limits<double>::quiet_NaN()), nullptr));
}

TEST(SelectCandidate, TakesTheOneThatSavesMostAndConfirmsDownwards) {
  const std::vector<Candidate> candidates = {{{0}, 1, Stats(0, 0.001)},
                                             {{0, 1}, 2, Stats(0, 0.0015)},
                                             {{0, 1, 2}, 3, Stats(0.001, 0.0019)},
                                             {{0, 1, 2, 3}, 4, Stats(0.001, 0.004)}};
  EXPECT_EQ(SelectCandidate(Gate::kUpper90, 0.002, candidates, nullptr).value(), 2);
  EXPECT_EQ(SelectCandidate(Gate::kMean, 0.002, candidates, nullptr).value(), 3);
  EXPECT_EQ(SelectCandidate(Gate::kUpper90, 0.0001, candidates, nullptr).value(), -1);
  std::vector<std::size_t> confirmed;
  auto confirm = [&](const std::vector<int>& groups) -> absl::StatusOr<RiskStats> {
    confirmed.push_back(groups.size());
    return groups.size() == 2 ? Stats(0, 0.001) : Stats(0, 0.01);
  };
  EXPECT_EQ(SelectCandidate(Gate::kStableSplit, 0.002, candidates, confirm).value(), 1);
  EXPECT_EQ(confirmed, (std::vector<std::size_t>{3, 2}));
}

TEST(ProfileName, IsShort) {
  EXPECT_EQ(ProfileName(0.005), "risk-0.005");
  EXPECT_EQ(ProfileName(0.002), "risk-0.002");
  EXPECT_EQ(ProfileName(1), "risk-1");
}

}  // namespace
}  // namespace riskkv

#include "common/quality/gate_trials.h"

#include "common/quality/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace riskkv {
namespace {

// A path of four prefixes whose true risks rise through the budget; windows share their article's level.
std::vector<TrialCandidate> Path(uint64_t seed, int articles, const std::vector<double>& risks) {
  Random random(seed);
  auto normal = [&] {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.Next() >> 11) * 0x1.0p-53;
    return sum;
  };
  std::vector<TrialCandidate> path;
  for (std::size_t c = 0; c < risks.size(); ++c) path.push_back({static_cast<int64_t>(c + 1), {}, {}});
  for (int split = 0; split < 2; ++split) {
    for (int a = 0; a < articles; ++a) {
      const double level = 0.002 * normal();
      for (int w = 0; w < 3; ++w) {
        const double noise = 0.004 * normal();
        for (std::size_t c = 0; c < risks.size(); ++c)
          (split == 0 ? path[c].select : path[c].held).push_back({a, risks[c] + level + noise});
      }
    }
  }
  return path;
}

TEST(TryGates, StricterGatesViolateLessAndSaveLess) {
  const std::vector<double> epsilons = {0.002, 0.005};
  double violations[3] = {}, requests[3] = {}, saved[3] = {};
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto path = Path(seed, 12, {0.0, 0.0015, 0.0025, 0.006});
    const std::vector<GateTrials> trials = TryGates(path, epsilons, 10, {120, 200, seed});
    ASSERT_EQ(trials.size(), 6u);
    for (const GateTrials& t : trials) {
      EXPECT_EQ(t.trials, 120);
      EXPECT_LE(t.violations.low95, t.violations.value);
      EXPECT_GE(t.violations.high95, t.violations.value);
      EXPECT_LE(t.bytes_saved, 0.4);
      if (t.epsilon != 0.002) continue;
      violations[static_cast<int>(t.gate)] += t.violations.value / 8;
      requests[static_cast<int>(t.gate)] += t.request_violations.value / 8;
      saved[static_cast<int>(t.gate)] += t.bytes_saved / 8;
    }
  }
  constexpr int kMean = static_cast<int>(Gate::kMean), kUpper = static_cast<int>(Gate::kUpper90),
                kStable = static_cast<int>(Gate::kStableSplit);
  EXPECT_LE(violations[kUpper], violations[kMean]);
  EXPECT_LE(violations[kStable], violations[kUpper]);
  EXPECT_LE(requests[kUpper], requests[kMean]);
  EXPECT_LE(requests[kStable], requests[kUpper]);
  EXPECT_LE(saved[kStable], saved[kUpper]);
  EXPECT_LE(saved[kUpper], saved[kMean]);
  EXPECT_GT(violations[kMean], 0.1) << "the case must be hard enough to tell the gates apart";
}

TEST(TryGates, KnownExtremes) {
  const double epsilon = 0.01;
  // Never above the budget: everything is chosen, nothing is violated.
  auto safe = Path(3, 8, {0, 0});
  for (TrialCandidate& c : safe) {
    for (auto* deltas : {&c.select, &c.held}) {
      for (PairedDelta& d : *deltas) d.value = 0;
    }
  }
  for (const GateTrials& t : TryGates(safe, {&epsilon, 1}, 4, {50, 100, 1})) {
    EXPECT_EQ(t.violations.value, 0);
    EXPECT_EQ(t.request_violations.value, 0);
    EXPECT_NEAR(t.bytes_saved, 0.5, 1e-12) << "two of four bytes";
    EXPECT_EQ(t.chose_nothing, 0);
  }
  // Looks safe, is not: every trial is in violation, under every gate.
  for (PairedDelta& d : safe[1].held) d.value = 1;
  for (const GateTrials& t : TryGates(safe, {&epsilon, 1}, 4, {50, 100, 1})) EXPECT_EQ(t.violations.value, 1);
  // Never admissible: exact, no violation.
  for (TrialCandidate& c : safe) {
    for (PairedDelta& d : c.select) d.value = 1;
  }
  for (const GateTrials& t : TryGates(safe, {&epsilon, 1}, 4, {50, 100, 1})) {
    EXPECT_EQ(t.violations.value, 0);
    EXPECT_EQ(t.chose_nothing, 1);
    EXPECT_EQ(t.bytes_saved, 0);
  }
}

TEST(TryGates, IsDeterministicAndNeedsWindows) {
  const auto path = Path(5, 6, {0.001, 0.003});
  const double epsilon = 0.002;
  const auto a = TryGates(path, {&epsilon, 1}, 4, {40, 100, 9}), b = TryGates(path, {&epsilon, 1}, 4, {40, 100, 9});
  ASSERT_EQ(a.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(a[i].violations.value, b[i].violations.value);
    EXPECT_EQ(a[i].bytes_saved, b[i].bytes_saved);
  }
  EXPECT_TRUE(TryGates({}, {&epsilon, 1}, 4, {}).empty());
  std::vector<TrialCandidate> unheld = path;
  for (TrialCandidate& c : unheld) c.held.clear();
  EXPECT_TRUE(TryGates(unheld, {&epsilon, 1}, 4, {}).empty());
}

TEST(Wilson, KnownValues) {
  const Proportion none = Wilson(0, 10), half = Wilson(50, 100);
  EXPECT_EQ(none.low95, 0);
  EXPECT_NEAR(none.high95, 0.2775, 1e-3);
  EXPECT_NEAR(half.low95, 0.4038, 1e-3);
  EXPECT_NEAR(half.high95, 0.5962, 1e-3);
  EXPECT_EQ(Wilson(0, 0).value, 0);
}

}  // namespace
}  // namespace riskkv

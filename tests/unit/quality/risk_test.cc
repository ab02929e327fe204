#include "common/quality/risk.h"

#include "common/engine/fake/fake_engine.h"
#include "common/predictor/selection_set.h"
#include "common/quality/probe_bounds.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

class RiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(engine_, FakeEngine::Create({}));
    ASSERT_TRUE(kernels::CreateBackend(kernels::BackendChoice::kCpu, 1, &backend_).ok());
    ASSERT_OK_AND_ASSIGN(store_, ScratchStore::Create(""));
    std::string text;
    for (int a = 0; a < 3; ++a) {
      text += " = Title " + std::to_string(a) + " = \n";
      for (int i = 0; i < 200; ++i) text += std::to_string(i * (a + 3)) + " ";
      text += "\n";
    }
    ASSERT_OK_AND_ASSIGN(const TextFile file, ParseArticles(text, "t"));
    ASSERT_OK_AND_ASSIGN(windows_, CutWindows(*engine_, file, {100, 50}, 1, 6));
  }
  const KvLayout& layout() const { return engine_->facts().fingerprint.layout; }
  absl::StatusOr<Measurement> Measure(float scale, EndsPolicy ends) {
    ASSIGN_OR_RETURN(const auto set,
                     MakeSelectionSet(engine_->facts(), ends, kernels::WeightType::kF32, scale));
    ASSIGN_OR_RETURN(const auto uploaded, UploadedSet::Create(*backend_, *set));
    RiskMeter meter(*engine_, *store_, windows_, "test", {1000, 1}, progress_);
    return meter.Measure(*backend_, uploaded->handle(), *set, CandidateProfile(*set, {0, 1}, ends));
  }

  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<ScratchStore> store_;
  WindowSet windows_;
  Progress progress_;
};

TEST_F(RiskTest, AnExactRebuildCostsNothing) {
  ASSERT_OK_AND_ASSIGN(const Measurement m, Measure(1.0f, {4, 16}));
  ASSERT_EQ(m.windows.size(), 6u);
  for (const WindowNll& w : m.windows) {
    EXPECT_EQ(w.delta(), 0);
    EXPECT_GT(w.exact, 0);
  }
  EXPECT_EQ(m.stats.upper90, 0);
  EXPECT_EQ(engine_->OpenSequences(), 0);
}

TEST_F(RiskTest, TheRebuiltCacheIsWhatIsScored) {
  ASSERT_OK_AND_ASSIGN(const Measurement m, Measure(0.5f, {4, 16}));
  for (const WindowNll& w : m.windows) EXPECT_NE(w.delta(), 0);
  // Ends that cover everything leave nothing to rebuild.
  ASSERT_OK_AND_ASSIGN(const Measurement covered, Measure(0.5f, {4, 128}));
  for (const WindowNll& w : covered.windows) EXPECT_EQ(w.delta(), 0);
}

TEST_F(RiskTest, OnlyOmittedLayersBetweenTheEndsChange) {
  ASSERT_OK_AND_ASSIGN(const auto set,
                       MakeSelectionSet(engine_->facts(), {}, kernels::WeightType::kF32, 0.5f));
  ASSERT_OK_AND_ASSIGN(const auto uploaded, UploadedSet::Create(*backend_, *set));
  WindowScorer scorer(*engine_);
  ASSERT_OK_AND_ASSIGN(const KvBlock exact,
                       scorer.Prefill(std::span<const Token>(windows_.windows[0].tokens).first(99)));
  const Profile p = CandidateProfile(*set, {1}, {4, 16});
  ASSERT_OK_AND_ASSIGN(const KvBlock cache, RebuildCache(*backend_, uploaded->handle(), *set, p, exact));
  for (int l = 0; l < layout().n_layer; ++l) {
    for (int64_t t = 0; t < 99; ++t) {
      const bool same = std::equal(exact.k(l) + t * 4, exact.k(l) + t * 4 + 4, cache.k(l) + t * 4) &&
                        std::equal(exact.v(l) + t * 4, exact.v(l) + t * 4 + 4, cache.v(l) + t * 4);
      EXPECT_EQ(same, !((l == 6 || l == 7) && t >= 4 && t < 83)) << l << " " << t;
    }
  }
  EXPECT_EQ(FullBytes(layout(), 99), 99 * 10 * 16);
  EXPECT_EQ(SentBytes(layout(), p, 99), 99 * 10 * 16 - 79 * 2 * 16);
}

TEST_F(RiskTest, ACancelledMeasurementStopsAndLeavesNothingOpen) {
  class Cancelled : public Progress {
    bool cancelled() const override { return true; }
  } cancelled;
  RiskMeter meter(*engine_, *store_, windows_, "test", {}, cancelled);
  EXPECT_TRUE(absl::IsCancelled(meter.Prepare()));
  EXPECT_EQ(engine_->OpenSequences(), 0);
}

TEST_F(RiskTest, AnEngineFaultIsPassedOn) {
  engine_->InjectFault(FakeFault::kScore, absl::InternalError("broken"), 2);
  EXPECT_FALSE(Measure(1.0f, {}).ok());
  EXPECT_EQ(engine_->OpenSequences(), 0);
}

TEST_F(RiskTest, RangeOfTheRebuild) {
  EXPECT_EQ(RebuiltRange({4, 128}, 511), (TokenRange{4, 383}));
  EXPECT_EQ(RebuiltRange({0, 0}, 511), (TokenRange{0, 511}));
  EXPECT_TRUE(RebuiltRange({4, 128}, 132).empty());
  EXPECT_TRUE(RebuiltRange({4, 128}, 3).empty());
}

TEST_F(RiskTest, ProbeBoundsHoldTheStatedShareOfMoves) {
  ASSERT_OK_AND_ASSIGN(const auto set, MakeSelectionSet(engine_->facts()));
  // Errors of known distribution: exponential, by layer and part of another scale.
  std::vector<TokenErrors> windows;
  uint64_t state = 3;
  for (int w = 0; w < 20; ++w) {
    TokenErrors e{{4, 388}, {2, 3, 6, 7}, {}};
    for (int i = 0; i < 384 * 8; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      e.values.push_back(static_cast<float>(-std::log((static_cast<double>(state >> 11) + 1) * 0x1.0p-53) *
                                            (1 + i % 8) * 0.01));
    }
    windows.push_back(std::move(e));
  }
  std::vector<GroupInfo> groups = set->groups();
  ProbePolicy policy;
  ASSERT_OK(SetProbeBounds(windows, policy, 1, groups));
  EXPECT_NEAR(groups[0].layers[0].k.mean, 0.01, 1e-3);
  EXPECT_NEAR(groups[1].layers[1].v.mean, 0.08, 8e-3);
  EXPECT_NEAR(groups[1].layers[1].v.p90, 0.08 * std::log(10.0), 0.02);
  // 24 probes of two tokens a move: a bound near the 1 - 0.01/24 quantile of the mean of two
  // exponentials, 5.1 means.
  EXPECT_GT(groups[0].layers[0].k_bound, 0.04);
  EXPECT_LT(groups[0].layers[0].k_bound, 0.07);
  policy.margin = 2;
  const double before = groups[0].layers[0].k_bound;
  ASSERT_OK(SetProbeBounds(windows, policy, 1, groups));
  EXPECT_NEAR(groups[0].layers[0].k_bound, 2 * before, 1e-9);
  EXPECT_FALSE(SetProbeBounds({}, policy, 1, groups).ok());
}

TEST_F(RiskTest, WhatIsKeptIsNotComputedAgain) {
  ASSERT_OK_AND_ASSIGN(const Measurement first, Measure(0.5f, {4, 16}));
  const int64_t steps = engine_->steps();
  class CountsSkips : public Progress {
   public:
    void Skip() override { ++skipped; }
    int skipped = 0;
  } counting;
  ASSERT_OK_AND_ASSIGN(const auto set, MakeSelectionSet(engine_->facts(), {4, 16}, kernels::WeightType::kF32, 0.5f));
  ASSERT_OK_AND_ASSIGN(const auto uploaded, UploadedSet::Create(*backend_, *set));
  RiskMeter again(*engine_, *store_, windows_, "again", {1000, 1}, counting);
  const Profile profile = CandidateProfile(*set, {0, 1}, {4, 16});
  ASSERT_OK_AND_ASSIGN(const Measurement second, again.Measure(*backend_, uploaded->handle(), *set, profile));
  EXPECT_EQ(engine_->steps(), steps);
  EXPECT_EQ(counting.skipped, 12) << "six exact and six rebuilt windows";
  EXPECT_EQ(second.delta_by_token, first.delta_by_token);
  EXPECT_EQ(second.stats.upper90, first.stats.upper90);
  // Other ends, other weights or another horizon are other results.
  const Profile other = CandidateProfile(*set, {0, 1}, {4, 8});
  ASSERT_OK_AND_ASSIGN(const Measurement third, again.Measure(*backend_, uploaded->handle(), *set, other));
  EXPECT_NE(third.delta_by_token, first.delta_by_token);
}

TEST_F(RiskTest, AnyCacheIsMeasuredOnTheSamePath) {
  RiskMeter meter(*engine_, *store_, windows_, "test", {1000, 1}, progress_);
  auto same = [](const KvBlock& exact) -> absl::StatusOr<KvBlock> { return exact; };
  ASSERT_OK_AND_ASSIGN(const Measurement unchanged, meter.MeasureCache("same", "same", same));
  for (const WindowNll& w : unchanged.windows) EXPECT_EQ(w.delta(), 0);
  auto flipped = [](const KvBlock& exact) -> absl::StatusOr<KvBlock> {
    KvBlock cache = exact;
    cache.data[7] ^= 1;
    return cache;
  };
  ASSERT_OK_AND_ASSIGN(const Measurement changed, meter.MeasureCache("flipped", "flipped", flipped));
  for (const WindowNll& w : changed.windows) EXPECT_NE(w.delta(), 0);
}

}  // namespace
}  // namespace riskkv

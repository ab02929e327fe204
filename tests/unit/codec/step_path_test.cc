#include "common/codec/step_path.h"

#include <limits>

#include "tests/testing/status_matchers.h"
#include "tests/unit/codec/synthetic_cache.h"

namespace riskkv {
namespace {

using ::riskkv::testing::FittedCodec;
using ::riskkv::testing::SmallLayout;
using ::riskkv::testing::StatusIs;
using ::riskkv::testing::SyntheticCache;
using ::testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(StepPath, TheMoveThatCostsLeastForAByteComesFirst) {
  const std::vector<float> steps = {1, 2, kInfinity};
  // Slopes: unit 0: 1/10, 9/10; unit 1: 3/10, 4/10.
  const std::vector<UnitCurve> curves = {{{20, 10, 0}, {0, 1, 10}}, {{20, 10, 0}, {0, 3, 7}}};
  const std::vector<StepPoint> path = WalkSteps(curves, steps, 1);
  ASSERT_EQ(path.size(), 5u);
  EXPECT_THAT(path[0].steps, ElementsAre(1, 1));
  EXPECT_THAT(path[1].steps, ElementsAre(2, 1));
  EXPECT_THAT(path[2].steps, ElementsAre(2, 2));
  EXPECT_THAT(path[3].steps, ElementsAre(2, kInfinity));
  EXPECT_THAT(path[4].steps, ElementsAre(kInfinity, kInfinity));
  EXPECT_DOUBLE_EQ(path[3].bytes, 10);
  EXPECT_DOUBLE_EQ(path[3].error, 8);
}

TEST(StepPath, AStepAboveTheHullIsLeftOut) {
  const std::vector<float> steps = {1, 2, 3};
  // The middle step costs nearly as much as the last and saves little; the next unit's middle saves nothing at all.
  const std::vector<UnitCurve> curves = {{{20, 19, 0}, {0, 9, 10}}, {{20, 20, 5}, {0, 1, 12}}};
  for (const StepPoint& p : WalkSteps(curves, steps, 1)) {
    EXPECT_NE(p.steps[0], 2);
    EXPECT_NE(p.steps[1], 2);
  }
}

TEST(StepPath, PointsThatHardlyDifferAreLeftOutButNotTheEnds) {
  std::vector<UnitCurve> curves(20, {{10, 0}, {0, 1}});
  const std::vector<float> steps = {1, kInfinity};
  const std::vector<StepPoint> path = WalkSteps(curves, steps, 0.7);
  EXPECT_DOUBLE_EQ(path.front().bytes, 200);
  EXPECT_DOUBLE_EQ(path.back().bytes, 0);
  EXPECT_LT(path.size(), 12u);
  for (std::size_t i = 1; i + 1 < path.size(); ++i) EXPECT_LE(path[i].bytes, 0.7 * path[i - 1].bytes);
}

TEST(StepPath, CurvesFallInBytesRiseInErrorAndEndInTheResidualsVariance) {
  const KvLayout layout = SmallLayout();
  ASSERT_OK_AND_ASSIGN(const auto codec, FittedCodec(layout));
  const std::vector<KvBlock> blocks = {SyntheticCache(layout, {4, 132}, 7), SyntheticCache(layout, {132, 200}, 8)};
  CodecScratch scratch;
  const std::vector<float> steps = {0.1f, 0.4f, kInfinity};
  ASSERT_OK_AND_ASSIGN(const std::vector<UnitCurve> curves, MeasureUnitCurves(*codec, blocks, steps, scratch));
  ASSERT_EQ(curves.size(), codec->weights().units.size());
  for (std::size_t u = 0; u < curves.size(); ++u) {
    EXPECT_GT(curves[u].bytes[0], curves[u].bytes[1]) << u;
    EXPECT_EQ(curves[u].bytes[2], 0) << u;
    EXPECT_LT(curves[u].error[0], curves[u].error[1]) << u;
    double variance = 0;
    for (float v : codec->weights().units[u].variance) variance += v;
    EXPECT_NEAR(curves[u].error[2], variance, 1e-9 * variance) << u;
    // A uniform quantiser with a dead zone of 0.6 errs by less than a step everywhere.
    const double width = static_cast<double>(codec->weights().units[u].variance.size());
    EXPECT_LT(curves[u].error[1], width * 0.4 * 0.4) << u;
  }
}

TEST(StepPath, WithoutABlockOrInDescendingOrderNothingIsMeasured) {
  const KvLayout layout = SmallLayout();
  ASSERT_OK_AND_ASSIGN(const auto codec, FittedCodec(layout));
  CodecScratch scratch;
  const std::vector<KvBlock> blocks = {SyntheticCache(layout, {4, 132}, 7)};
  const std::vector<float> descending = {0.4f, 0.1f};
  EXPECT_THAT(MeasureUnitCurves(*codec, blocks, descending, scratch), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(MeasureUnitCurves(*codec, {}, std::vector<float>{0.1f}, scratch),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace riskkv

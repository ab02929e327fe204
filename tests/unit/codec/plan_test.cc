#include "common/codec/plan.h"

#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::riskkv::testing::IsOk;
using ::riskkv::testing::StatusIs;

TEST(CodedPlan, EveryNumberOfLayersIsCodedOnceAndInOrder) {
  for (int n = 0; n <= 40; ++n) {
    EXPECT_THAT(CheckPlan(PairPlan(n), n), IsOk()) << n;
    EXPECT_THAT(CheckPlan(SplitPlan(n), n), IsOk()) << n;
  }
}

// The paper's layout: anchors 0 1, 4 5, 8 9, targets 2 3, 6 7.
TEST(CodedPlan, TargetsAreCodedAfterTheAnchorsAroundThem) {
  const CodedPlan plan = PairPlan(10);
  ASSERT_EQ(plan.size(), 5u);
  EXPECT_TRUE(plan[0].conditions.empty());
  EXPECT_THAT(plan[2].conditions, ElementsAre(1));
  EXPECT_EQ(plan[3].planes.front().layer, 2);
  EXPECT_THAT(plan[3].conditions, ElementsAre(0, 1));
  EXPECT_EQ(plan[4].planes.back().layer, 7);
  EXPECT_THAT(plan[4].conditions, ElementsAre(1, 2));
  EXPECT_EQ(ConditionWidth(plan, plan[4], 3), 24);
}

TEST(CodedPlan, APlanThatCannotBeDecodedIsRefusedByName) {
  CodedPlan plan = PairPlan(10);
  plan[1].conditions = {3};
  EXPECT_THAT(CheckPlan(plan, 10), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unit 1: condition 3")));
  plan = PairPlan(10);
  plan[4].planes[0] = {0, kPartK};
  EXPECT_THAT(CheckPlan(plan, 10), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("coded twice")));
  plan = PairPlan(10);
  plan.pop_back();
  EXPECT_THAT(CheckPlan(plan, 10), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("layer 6")));
  EXPECT_THAT(CheckPlan(PairPlan(10), 9), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("9 layers")));
}

}  // namespace
}  // namespace riskkv

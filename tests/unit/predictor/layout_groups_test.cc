#include "common/predictor/layout_groups.h"

#include <fstream>

#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

TEST(PeriodFourGroups, GivesThePapersCounts) {
  EXPECT_EQ(PeriodFourGroups(24).size(), 5u);  // Qwen2.5-0.5B
  EXPECT_EQ(PeriodFourGroups(28).size(), 6u);  // Qwen2.5-1.5B
  EXPECT_EQ(PeriodFourGroups(22).size(), 5u);  // TinyLlama
  EXPECT_EQ(PeriodFourGroups(30).size(), 7u);  // SmolLM2
  EXPECT_TRUE(PeriodFourGroups(5).empty());
  ASSERT_EQ(PeriodFourGroups(6).size(), 1u);
  EXPECT_EQ(PeriodFourGroups(30)[2], (GroupSpec{{8, 9, 12, 13}, {10, 11}}));
}

TEST(PeriodFourGroups, AreValidForEveryModel) {
  for (int layers = 0; layers < 100; ++layers) EXPECT_OK(CheckGroups(PeriodFourGroups(layers), layers));
}

TEST(CheckGroups, RefusesWhatCannotBeRebuilt) {
  EXPECT_THAT(CheckGroups({{{0, 1}, {2}}, {{2, 3}, {4}}}, 6),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("layer 2")));
  EXPECT_THAT(CheckGroups({{{0}, {2}}, {{1}, {2}}}, 6),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
  EXPECT_THAT(CheckGroups({{{0}, {6}}}, 6),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[0, 6)")));
  EXPECT_FALSE(CheckGroups({{{1, 0}, {2}}}, 6).ok());
  EXPECT_FALSE(CheckGroups({{{}, {2}}}, 6).ok());
}

TEST(MakeGroupLayout, NamesAreDataForAnyModel) {
  ASSERT_OK_AND_ASSIGN(const GroupLayout paper, MakeGroupLayout("paper", 30));
  EXPECT_EQ(paper.name, "period-four");
  EXPECT_EQ(paper.groups, PeriodFourGroups(30));
  ASSERT_OK_AND_ASSIGN(const GroupLayout one, MakeGroupLayout("one-anchor", 7));
  EXPECT_EQ(one.groups, (std::vector<GroupSpec>{{{0, 3}, {1, 2}}, {{3, 6}, {4, 5}}}));
  ASSERT_OK_AND_ASSIGN(const GroupLayout three, MakeGroupLayout("runs-of-three", 12));
  EXPECT_EQ(three.groups, (std::vector<GroupSpec>{{{0, 1, 5, 6}, {2, 3, 4}}, {{5, 6, 10, 11}, {7, 8, 9}}}));
  ASSERT_OK_AND_ASSIGN(const GroupLayout all, MakeGroupLayout("all-anchors", 10));
  EXPECT_EQ(all.groups,
            (std::vector<GroupSpec>{{{0, 1, 4, 5, 8, 9}, {2, 3}}, {{0, 1, 4, 5, 8, 9}, {6, 7}}}));
  for (const char* name : {"paper", "one-anchor", "runs-of-three", "all-anchors"}) {
    for (int layers = 7; layers < 60; ++layers) {
      ASSERT_OK_AND_ASSIGN(const GroupLayout layout, MakeGroupLayout(name, layers));
      EXPECT_OK(CheckGroups(layout.groups, layers)) << name << " " << layers;
    }
    EXPECT_THAT(MakeGroupLayout(name, 3), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("3 layers")));
  }
  EXPECT_THAT(MakeGroupLayout("none.json", 30), StatusIs(absl::StatusCode::kNotFound));
}

TEST(ReadGroupLayout, ReadsAndNamesErrors) {
  const std::string path = ::testing::TempDir() + "layout.json";
  std::ofstream(path) << R"({"name":"one side","groups":[{"anchors":[0],"targets":[1,2]}]})";
  ASSERT_OK_AND_ASSIGN(const GroupLayout layout, ReadGroupLayout(path, 6));
  EXPECT_EQ(layout.name, "one side");
  EXPECT_EQ(layout.groups, (std::vector<GroupSpec>{{{0}, {1, 2}}}));
  EXPECT_THAT(ReadGroupLayout(path, 2), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path)));
  std::ofstream(path) << R"({"name":"x"})";
  EXPECT_THAT(ReadGroupLayout(path, 6), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("groups")));
  EXPECT_THAT(ReadGroupLayout(path + ".none", 6), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace riskkv

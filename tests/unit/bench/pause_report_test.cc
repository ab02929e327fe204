#include "services/bench/pause_report.h"

#include "gtest/gtest.h"

namespace riskkv::bench {
namespace {

PauseRow Row(const std::string& mode, int64_t tokens, double pause, double step) {
  return Summarise(mode, {{tokens, pause, step, /*final_copy=*/20, /*commit=*/5}});
}

TEST(PauseReport, RowsAreMediansOfEachPart) {
  const PauseRow row = Summarise("FULL", {{100, 90, 30, 10, 3}, {110, 50, 20, 12, 900}, {120, 60, 40, 11, 4}});
  EXPECT_EQ(row.moves, 3);
  EXPECT_EQ(row.median.tokens, 110);
  EXPECT_EQ(row.median.pause, 60);
  EXPECT_EQ(row.median.step, 30);
  EXPECT_EQ(row.median.commit, 4);
  EXPECT_EQ(row.rest(), 60 - 30 - 11 - 4);
  EXPECT_EQ(row.allowed(), 45 + 10 + 11 + 4);
}

TEST(PauseReport, ALongerStepIsNoGrowthALongerPauseIs) {
  PauseReport report;
  report.rows = {Row("FULL", 256, 60, 20), Row("FULL", 8000, 90, 40), Row("RISK", 256, 50, 20)};
  EXPECT_EQ(report.Growth("FULL"), 0);
  EXPECT_TRUE(report.Within());
  report.rows.push_back(Row("RISK", 8000, 95, 40));
  EXPECT_EQ(report.Growth("RISK"), 15) << "of the 45 ms, 30 are one and a half of the 20 that a step grew";
  EXPECT_EQ(report.rows.back().ratio(), 1);
  EXPECT_FALSE(report.Within()) << "though within what this length alone allows";
}

TEST(PauseReport, APauseBeyondTheSumOfItsPartsIsNotWithin) {
  PauseReport report;
  report.rows = {Row("FULL", 256, 65, 20)};
  EXPECT_EQ(report.rows[0].ratio(), 1);
  EXPECT_TRUE(report.Within());
  report.rows = {Row("FULL", 256, 66, 20)};
  EXPECT_FALSE(report.Within());
  EXPECT_FALSE(ToJson(report)["within"].get<bool>());
}

}  // namespace
}  // namespace riskkv::bench

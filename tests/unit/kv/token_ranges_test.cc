#include "common/kv/token_ranges.h"

#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace riskkv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TokenRangesTest, MergesAndReportsWhatIsNew) {
  TokenRanges set;
  EXPECT_EQ(set.Add({0, 4}), 4);
  EXPECT_EQ(set.Add({8, 12}), 4);
  EXPECT_EQ(set.Add({2, 9}), 4);
  EXPECT_THAT(set.ranges(), ElementsAre(TokenRange{0, 12}));
  EXPECT_EQ(set.Add({12, 13}), 1);
  EXPECT_EQ(set.ToString(), "[0,13)");
  EXPECT_EQ(set.Add({5, 5}), 0);
}

TEST(TokenRangesTest, MissingAndContiguous) {
  const TokenRanges set({{2, 4}, {6, 9}});
  EXPECT_THAT(set.Missing({0, 10}), ElementsAre(TokenRange{0, 2}, TokenRange{4, 6}, TokenRange{9, 10}));
  EXPECT_THAT(set.Missing({2, 4}), IsEmpty());
  EXPECT_THAT(set.Present({3, 7}), ElementsAre(TokenRange{3, 4}, TokenRange{6, 7}));
  EXPECT_EQ(set.ContiguousEnd(2), 4);
  EXPECT_EQ(set.ContiguousEnd(3), 4);
  EXPECT_EQ(set.ContiguousEnd(4), 4);
  EXPECT_TRUE(set.Contains({6, 9}));
  EXPECT_FALSE(set.Contains({3, 7}));
  EXPECT_TRUE(set.Contains({5, 5}));
}

// Against a set of single positions.
TEST(TokenRangesTest, AgreesWithASetOfPositions) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 rng(seed);
    TokenRanges set;
    std::set<int64_t> model;
    for (int i = 0; i < 60; ++i) {
      const int64_t begin = rng() % 64;
      const TokenRange r = {begin, begin + static_cast<int64_t>(rng() % 16)};
      const std::size_t before = model.size();
      if (rng() % 3 > 0) {
        for (int64_t p = r.begin; p < r.end; ++p) model.insert(p);
        ASSERT_EQ(set.Add(r), static_cast<int64_t>(model.size() - before)) << "seed " << seed;
      } else {
        for (int64_t p = r.begin; p < r.end; ++p) model.erase(p);
        ASSERT_EQ(set.Remove(r), static_cast<int64_t>(before - model.size())) << "seed " << seed;
      }
      ASSERT_EQ(set.size(), static_cast<int64_t>(model.size()));
      int64_t missing = 0;
      for (TokenRange m : set.Missing({0, 80})) {
        for (int64_t p = m.begin; p < m.end; ++p) ASSERT_EQ(model.count(p), 0u);
        missing += m.size();
      }
      ASSERT_EQ(missing, 80 - set.size());
      for (int64_t p = 0; p < 80; ++p) ASSERT_EQ(set.Contains(p), model.count(p) > 0);
      int64_t last = -2;
      for (TokenRange x : set.ranges()) {
        ASSERT_LT(x.begin, x.end);
        ASSERT_GT(x.begin, last) << "touching ranges are merged";
        last = x.end;
      }
    }
  }
}

}  // namespace
}  // namespace riskkv

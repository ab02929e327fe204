#include "common/quality/sensitivity.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace riskkv {
namespace {

TEST(Sensitivity, RatiosAreBelievedByHalfAndBounded) {
  const std::vector<double> s = ShrinkSensitivities({1, 4, 16}, {});
  ASSERT_EQ(s.size(), 3u);
  EXPECT_NEAR(s[0], 0.5, 1e-9);
  EXPECT_NEAR(s[1], 1, 1e-9);
  EXPECT_NEAR(s[2], 2, 1e-9);
  for (double x : ShrinkSensitivities({1e-9, 1, 1e9}, {.trust = 1})) {
    EXPECT_GE(x, 0.25 - 1e-9);
    EXPECT_LE(x, 4 + 1e-9);
  }
}

// Noise that happened to help says little, and must not make a plane worthless.
TEST(Sensitivity, AChangeThatIsNotPositiveCountsAsSmall) {
  const std::vector<double> s = ShrinkSensitivities({-0.01, 0.5, 0.5}, {});
  EXPECT_GT(s[0], 0.15);
  EXPECT_LT(s[0], s[1]);
  EXPECT_EQ(ShrinkSensitivities({-1, 0}, {}), (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace riskkv

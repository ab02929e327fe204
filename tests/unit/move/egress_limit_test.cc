#include "services/worker/core/egress_limit.h"

#include <vector>

#include "gtest/gtest.h"

namespace riskkv::worker {
namespace {

class EgressLimitTest : public ::testing::Test {
 protected:
  EgressLimit Limit(double rate, bool pass_time = true) {
    return EgressLimit(rate, &clock_, [this, pass_time](absl::Duration d) {
      waits_.push_back(absl::ToDoubleSeconds(d));
      if (pass_time) clock_.Advance(d);
    });
  }
  FakeClock clock_;
  std::vector<double> waits_;
};

TEST_F(EgressLimitTest, BytesTakeAsLongAsOnALinkOfThatSpeed) {
  EgressLimit limit = Limit(1000);
  for (int i = 0; i < 3; ++i) limit.Take(500);
  EXPECT_EQ(waits_, (std::vector<double>{0.5, 0.5, 0.5}));
}

TEST_F(EgressLimitTest, SendersAtTheSameTimeShareIt) {
  EgressLimit limit = Limit(1000, /*pass_time=*/false);
  for (int i = 0; i < 3; ++i) limit.Take(500);
  EXPECT_EQ(waits_, (std::vector<double>{0.5, 1.0, 1.5})) << "each waits for those before it";
}

TEST_F(EgressLimitTest, SilenceSavesNothingUp) {
  EgressLimit limit = Limit(1000);
  clock_.Advance(absl::Seconds(100));
  limit.Take(500);
  EXPECT_EQ(waits_, std::vector<double>{0.5});
}

TEST_F(EgressLimitTest, WithoutALimitNobodyWaits) {
  EgressLimit limit = Limit(0);
  limit.Take(1 << 30);
  EXPECT_TRUE(waits_.empty());
}

}  // namespace
}  // namespace riskkv::worker

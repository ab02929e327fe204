#include "services/client/core/delivery_log.h"

#include "tests/testing/status_matchers.h"

namespace riskkv::client {
namespace {

void Add(DeliveryLog& log, int64_t index, uint64_t epoch, int ms) {
  TokenEvent t;
  t.index = index;
  t.epoch = epoch;
  t.token = static_cast<int32_t>(index);
  log.Add(t, absl::Milliseconds(ms));
}

TEST(DeliveryLogTest, CountsLostAndDoubled) {
  DeliveryLog log;
  for (int64_t i : {0, 1, 1, 4}) Add(log, i, 1, 0);
  EXPECT_EQ(log.Lost(5), 2);
  EXPECT_EQ(log.Duplicated(), 1);
  EXPECT_EQ(log.Lost(2), 0);
}

TEST(DeliveryLogTest, StartsWhereItWasTold) {
  DeliveryLog log(3);
  Add(log, 3, 1, 0);
  EXPECT_EQ(log.Lost(5), 1);
  EXPECT_EQ(log.Lost(2), 0);
}

TEST(DeliveryLogTest, MeasuresThePauseAroundAnOwnerChange) {
  DeliveryLog log;
  Add(log, 0, 1, 0);
  Add(log, 1, 1, 10);
  Add(log, 2, 2, 60);
  Add(log, 3, 2, 72);
  Add(log, 4, 2, 90);
  auto changes = log.OwnerChanges();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].index, 2);
  EXPECT_EQ(changes[0].from_epoch, 1u);
  EXPECT_EQ(changes[0].to_epoch, 2u);
  EXPECT_EQ(changes[0].pause, absl::Milliseconds(50));
  EXPECT_EQ(log.MedianGap(), absl::Milliseconds(12));
}

}  // namespace
}  // namespace riskkv::client

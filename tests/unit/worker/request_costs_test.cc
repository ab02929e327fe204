#include "services/worker/core/request_costs.h"

#include "common/engine/fake/fake_engine.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::worker {
namespace {

TEST(CostMeter, RecoversPrefillFromChunks) {
  CostMeter meter;
  const double p1 = 2e-3, p2 = 5e-7;
  for (int request = 0; request < 3; ++request) {
    for (int64_t past = 0; past < 2048; past += 256) {
      const double end = static_cast<double>(past + 256), begin = static_cast<double>(past);
      meter.Prefill(past, 256, absl::Seconds(p1 * 256 + p2 * (end * end - begin * begin)));
    }
  }
  EXPECT_NEAR(meter.prefill_p1(), p1, 1e-5);
  EXPECT_NEAR(meter.prefill_p2(), p2, 1e-9);
}

TEST(CostMeter, RecoversDecodeFromContext) {
  CostMeter meter;
  for (int64_t context = 10; context < 2000; ++context) meter.Decode(context, absl::Seconds(0.012 + 4e-6 * static_cast<double>(context)));
  EXPECT_NEAR(meter.decode_s(), 0.012, 1e-4);
  EXPECT_NEAR(meter.decode_s_per_token(), 4e-6, 1e-7);
}

TEST(CostMeter, SamplesThatAreAllAlikeGoToTheFirstTerm) {
  CostMeter meter;
  for (int i = 0; i < 5; ++i) meter.Prefill(0, 100, absl::Milliseconds(200));
  EXPECT_NEAR(meter.prefill_p1(), 2e-3, 1e-9);
  EXPECT_EQ(meter.prefill_p2(), 0);
}

TEST(CostMeter, NeverNegative) {
  CostMeter meter;
  meter.Prefill(0, 100, absl::Milliseconds(500));
  meter.Prefill(100, 100, absl::Milliseconds(100));  // faster with more context: noise
  EXPECT_GT(meter.prefill_p1(), 0);
  EXPECT_EQ(meter.prefill_p2(), 0);
  meter.Prefill(0, 100, absl::ZeroDuration());
  EXPECT_GT(meter.prefill_p1(), 0) << "no sample";
}

TEST(CostMeter, FollowsAChange) {
  CostMeter meter;
  for (int i = 0; i < 50; ++i) meter.Append(100, absl::Milliseconds(1));
  for (int i = 0; i < 100; ++i) meter.Append(100, absl::Milliseconds(3));
  EXPECT_NEAR(meter.append_s(), 3e-5, 1e-6);
  for (int i = 0; i < 50; ++i) meter.Export(100, 0.5, absl::Milliseconds(1));
  EXPECT_NEAR(meter.export_s(), 2e-5, 1e-9) << "half of the layers: twice for all";
}

TEST(CostMeter, BusyIsAShareOfTime) {
  CostMeter meter;
  for (int i = 0; i < 400; ++i) meter.Turn(absl::Milliseconds(30), absl::Milliseconds(70));
  EXPECT_NEAR(meter.busy(), 0.3, 0.01);
  for (int i = 0; i < 400; ++i) meter.Turn(absl::ZeroDuration(), absl::Milliseconds(100));
  EXPECT_NEAR(meter.busy(), 0, 0.01);
}

TEST(WarmUp, MeasuresEverythingAndLeavesNothing) {
  FakeOptions options;
  options.step_delay = absl::Microseconds(200);
  options.token_delay = absl::Microseconds(20);
  options.append_delay = absl::Microseconds(100);
  auto engine = FakeEngine::Create(options).value();
  RealClock clock;
  CostMeter meter;
  ASSERT_OK(WarmUp(*engine, clock, 1024, 32, meter));
  EXPECT_GT(meter.prefill_p1(), 0);
  EXPECT_GT(meter.decode_s(), 0);
  EXPECT_GT(meter.append_s(), 0);
  EXPECT_GT(meter.export_s(), 0);
  EXPECT_EQ(engine->CellsUsed(), 0);
  EXPECT_EQ(engine->OpenSequences(), 0);
}

}  // namespace
}  // namespace riskkv::worker

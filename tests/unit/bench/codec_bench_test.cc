// What the bench counts; how long things take is nobody's promise.
#include "services/bench/codec_bench.h"

#include "tests/unit/codec/synthetic_cache.h"

namespace riskkv::bench {
namespace {

using ::riskkv::testing::FittedCodec;
using ::riskkv::testing::SmallLayout;

TEST(CodecBench, CountsTokensAndBytesOfDrawnCells) {
  const KvLayout layout = SmallLayout(10, 4, 16);
  ASSERT_OK_AND_ASSIGN(const auto codec, FittedCodec(layout));
  CodecBenchOptions options;
  options.tokens = 200;
  options.repetitions = 2;
  ASSERT_OK_AND_ASSIGN(const KvBlock cells, DrawCells(*codec, options));
  RealClock clock;
  ASSERT_OK_AND_ASSIGN(const CodecBenchResult r, BenchCodec(*codec, cells, clock, options, nullptr, {}));
  EXPECT_EQ(r.tokens, 200);
  EXPECT_EQ(r.cache_bytes, 200 * layout.bytes_per_token());
  EXPECT_GT(r.coded_bytes, 0);
  EXPECT_LT(r.coded_bytes, r.cache_bytes / 3);
  // Drawn from what the tables assume.
  EXPECT_LT(8.0 * static_cast<double>(r.coded_bytes) / r.ideal_bits, 1.05);
  const nlohmann::json j = ToJson(r);
  EXPECT_FALSE(j.contains("prefill"));
  EXPECT_GT(j["decode"]["share_of_product_limit"].get<double>(), 0);
}

}  // namespace
}  // namespace riskkv::bench

#include "common/codec/coded_profile.h"

#include <cmath>
#include <limits>

#include "common/codec/codec_section.h"
#include "common/codec/int8_rows.h"
#include "common/engine/fake/fake_engine.h"
#include "common/predictor/selection_set.h"
#include "kernels/fp16.h"
#include "tests/unit/codec/synthetic_cache.h"

namespace riskkv {
namespace {

using ::testing::HasSubstr;
using ::riskkv::testing::FittedCodec;
using ::riskkv::testing::FitWeights;
using ::riskkv::testing::HasReason;
using ::riskkv::testing::IsOk;
using ::riskkv::testing::SmallLayout;
using ::riskkv::testing::StatusIs;
using ::riskkv::testing::SyntheticCache;

TEST(Int8Rows, ErrorsAreBoundedByTheirHeadAndBytesAreThoseSaid) {
  const KvLayout layout = SmallLayout();
  const KvBlock exact = SyntheticCache(layout, {12, 52}, 3);
  ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeInt8(layout, exact));
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), Int8Bytes(layout, 40));
  ASSERT_OK_AND_ASSIGN(const KvBlock decoded, DecodeInt8(layout, bytes));
  EXPECT_EQ(decoded.range, exact.range);
  const std::size_t d = static_cast<std::size_t>(layout.head_dim);
  for (std::size_t i = 0; i < exact.data.size(); i += d) {
    float largest = 0, error = 0;
    for (std::size_t j = i; j < i + d; ++j) {
      const float x = kernels::HalfToFloat(exact.data[j]);
      largest = std::max(largest, std::fabs(x));
      error = std::max(error, std::fabs(x - kernels::HalfToFloat(decoded.data[j])));
    }
    ASSERT_LE(error, largest / 250 + 1e-3f * largest);
  }
}

TEST(Int8Rows, DamageAndLengthsThatLieAreRefused) {
  const KvLayout layout = SmallLayout();
  ASSERT_OK_AND_ASSIGN(const std::string bytes, EncodeInt8(layout, SyntheticCache(layout, {0, 2}, 3)));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_THAT(DecodeInt8(layout, damaged), StatusIs(absl::StatusCode::kDataLoss)) << i;
  }
  EXPECT_THAT(DecodeInt8(layout, bytes.substr(0, 7)), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeInt8(layout, bytes + "x"), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(CodedProfile, ACacheKeepsItsEndsAndCountsEveryByte) {
  const KvLayout layout = SmallLayout();
  ASSERT_OK_AND_ASSIGN(const auto codec, FittedCodec(layout));
  CodedProfile profile;
  profile.steps.assign(codec->weights().units.size(), 0.5f);
  profile.int8_ends = false;
  const KvBlock exact = SyntheticCache(layout, {0, 300}, 3);
  CodecScratch scratch;
  ASSERT_OK_AND_ASSIGN(const CodedCache cache, CodeCache(*codec, profile, exact, scratch));
  for (const TokenRange end : {TokenRange{0, 4}, TokenRange{264, 300}}) {
    ASSERT_OK_AND_ASSIGN(const KvBlock sent, Slice(exact, end, exact.layers));
    ASSERT_OK_AND_ASSIGN(const KvBlock received, Slice(cache.cells, end, exact.layers));
    EXPECT_EQ(received.data, sent.data);
  }
  EXPECT_NE(cache.cells.data, exact.data);
  EXPECT_GT(cache.bytes, 40 * layout.bytes_per_token());
  EXPECT_LT(cache.bytes, exact.bytes() / 2);
  profile.int8_ends = true;
  ASSERT_OK_AND_ASSIGN(const CodedCache small, CodeCache(*codec, profile, exact, scratch));
  EXPECT_EQ(cache.bytes - small.bytes, 40 * layout.bytes_per_token() - Int8Bytes(layout, 4) - Int8Bytes(layout, 36));
  // A cache that is all ends has nothing to code.
  ASSERT_OK_AND_ASSIGN(const CodedCache all_ends, CodeCache(*codec, profile, SyntheticCache(layout, {0, 30}, 3), scratch));
  EXPECT_EQ(all_ends.bytes, Int8Bytes(layout, 4) + Int8Bytes(layout, 26));
}

TEST(CodedProfile, ProfilesComeBackFromTheSet) {
  ASSERT_OK_AND_ASSIGN(const auto engine, FakeEngine::Create(FakeOptions{}));
  ASSERT_OK_AND_ASSIGN(const auto plain, MakeSelectionSet(engine->facts()));
  ASSERT_OK_AND_ASSIGN(CodecWeights weights, FitWeights(plain->layout(), PairPlan(plain->layout().n_layer)));
  CodedProfile profile;
  profile.name = CodedProfileName(0.002);
  profile.epsilon = 0.002;
  profile.steps.assign(weights.units.size(), 0.25f);
  profile.steps[1] = std::numeric_limits<float>::infinity();
  profile.gated = true;
  profile.gate = "upper90";
  profile.select.upper90 = 0.0015;
  ASSERT_OK_AND_ASSIGN(std::string bytes, WithSection(*plain, ToSection(weights, plain->layout().kv(), {profile})));
  ASSERT_OK_AND_ASSIGN(const auto set, PredictorSet::FromBytes(std::move(bytes), "coded"));
  ASSERT_OK_AND_ASSIGN(const CodedProfile read, FindCodedProfile(*set, "coded-0.002"));
  EXPECT_EQ(read.steps, profile.steps);
  EXPECT_EQ(read.select.upper90, 0.0015);
  EXPECT_EQ(read.gate, "upper90");
  EXPECT_THAT(FindCodedProfile(*set, "coded-1"), HasReason("UNKNOWN_PROFILE"));
  EXPECT_THAT(FindCodedProfile(*plain, "coded-1"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("there are: none")));
}

}  // namespace
}  // namespace riskkv

#include "common/codec/coded_probe.h"

#include <limits>

#include "kernels/fp16.h"
#include "tests/unit/codec/synthetic_cache.h"

namespace riskkv {
namespace {

using ::riskkv::testing::FittedCodec;
using ::riskkv::testing::HasReason;
using ::riskkv::testing::IsOk;
using ::riskkv::testing::SmallLayout;
using ::riskkv::testing::StatusIs;
using ::riskkv::testing::SyntheticCache;

class CodedProbeTest : public ::testing::Test {
 protected:
  void SetUp() override { codec_ = FittedCodec(layout_).value(); }
  KvBlock Decoded(const CodedPolicy& policy, const KvBlock& exact) {
    CodecScratch scratch;
    return codec_->Decode(policy, codec_->Encode(policy, exact, scratch).value(), scratch).value();
  }
  ProbeRows Rows(const KvBlock& exact, const std::vector<int>& layers) {
    return GatherRows(exact, {3, 64, 99}, layers).value();
  }

  const KvLayout layout_ = SmallLayout();
  std::unique_ptr<BlockCodec> codec_;
};

TEST_F(CodedProbeTest, WhatTheCodecDoesAlwaysPassesWhateverTheText) {
  for (float step : {0.01f, 0.25f, 1.0f}) {
    const CodedPolicy policy = codec_->MakePolicy(step).value();
    for (float loudness : {0.3f, 1.0f, 6.0f}) {
      const KvBlock exact = SyntheticCache(layout_, {0, 128}, 5, loudness);
      ASSERT_OK_AND_ASSIGN(const double ratio, CheckCodedProbe(*codec_, policy, Decoded(policy, exact),
                                                               Rows(exact, AllLayers(layout_))));
      EXPECT_GT(ratio, 0) << step;
      EXPECT_LE(ratio, 1) << step;
    }
  }
}

TEST_F(CodedProbeTest, CoarserStepsThanAgreedAreRefused) {
  const CodedPolicy agreed = codec_->MakePolicy(0.1f).value(), coarser = codec_->MakePolicy(1.0f).value();
  const KvBlock exact = SyntheticCache(layout_, {0, 128}, 5);
  EXPECT_THAT(CheckCodedProbe(*codec_, agreed, Decoded(coarser, exact), Rows(exact, AllLayers(layout_))),
              HasReason("VERIFY_GATE"));
}

TEST_F(CodedProbeTest, OneWrongElementOfAProbedTokenIsRefusedAndANumberThatIsNone) {
  const CodedPolicy policy = codec_->MakePolicy(0.25f).value();
  const KvBlock exact = SyntheticCache(layout_, {0, 128}, 5);
  const ProbeRows rows = Rows(exact, {2, 3});
  for (uint16_t wrong : {kernels::FloatToHalf(500.0f), uint16_t{0x7e00}}) {
    KvBlock decoded = Decoded(policy, exact);
    decoded.k(3)[64 * decoded.kv + 1] = wrong;
    EXPECT_THAT(CheckCodedProbe(*codec_, policy, decoded, rows), HasReason("VERIFY_GATE"));
  }
}

TEST_F(CodedProbeTest, BlocksProbeOneUnitAfterTheOther) {
  const CodedPolicy policy = codec_->MakePolicy(0.25f).value();
  std::set<std::vector<int>> seen;
  for (int64_t block = 0; block < 5; ++block) seen.insert(CodedProbeLayers(*codec_, policy, 17, block));
  EXPECT_EQ(seen.size(), codec_->weights().plan.size()) << "ten layers are five units";
  for (const std::vector<int>& layers : seen) EXPECT_EQ(layers.size(), 2u);
}

TEST_F(CodedProbeTest, OmittedUnitsAreNeitherProbedNorJudged) {
  std::vector<float> steps(codec_->weights().plan.size(), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(CodedProbeLayers(*codec_, codec_->MakePolicy(steps).value(), 1, 1).empty());
  steps[0] = 0.25f;
  const CodedPolicy policy = codec_->MakePolicy(steps).value();
  const std::vector<int> layers = CodedProbeLayers(*codec_, policy, 1, 1);
  const KvBlock exact = SyntheticCache(layout_, {0, 128}, 5);
  EXPECT_THAT(CheckCodedProbe(*codec_, policy, Decoded(policy, exact), Rows(exact, layers)), IsOk());
  EXPECT_THAT(CheckCodedProbe(*codec_, policy, Decoded(policy, exact), Rows(exact, {8, 9})),
              HasReason("VERIFY_GATE"))
      << "a probe that compares nothing proves nothing";
}

TEST_F(CodedProbeTest, AProbeOutsideTheBlockIsRefused) {
  const CodedPolicy policy = codec_->MakePolicy(0.25f).value();
  const KvBlock exact = SyntheticCache(layout_, {0, 128}, 5);
  ProbeRows rows = Rows(exact, {2, 3});
  rows.positions.back() = 128;
  EXPECT_THAT(CheckCodedProbe(*codec_, policy, exact, rows), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace riskkv

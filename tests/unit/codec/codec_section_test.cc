#include "common/codec/codec_section.h"

#include <cmath>

#include "common/predictor/selection_set.h"
#include "tests/unit/codec/synthetic_cache.h"
#include "common/engine/fake/fake_engine.h"

namespace riskkv {
namespace {

using ::testing::HasSubstr;
using ::riskkv::testing::FitWeights;
using ::riskkv::testing::HasReason;
using ::riskkv::testing::IsOk;
using ::riskkv::testing::StatusIs;

// The fake engine's set, and weights for a cache of its shape.
class CodecSectionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(const auto engine, FakeEngine::Create(FakeOptions{}));
    ASSERT_OK_AND_ASSIGN(plain_, MakeSelectionSet(engine->facts()));
    ASSERT_OK_AND_ASSIGN(weights_, FitWeights(plain_->layout(), PairPlan(plain_->layout().n_layer)));
    ASSERT_THAT(RoundToHalf(weights_), IsOk());
  }
  absl::StatusOr<std::shared_ptr<const PredictorSet>> Opened(const SetSection& section) {
    ASSIGN_OR_RETURN(std::string bytes, WithSection(*plain_, section));
    return PredictorSet::FromBytes(std::move(bytes), "coded");
  }
  std::shared_ptr<const PredictorSet> plain_;
  CodecWeights weights_;
};

TEST_F(CodecSectionTest, WeightsComeBackAsTheyWereMeasured) {
  ASSERT_OK_AND_ASSIGN(const auto set, Opened(ToSection(weights_, plain_->layout().kv())));
  EXPECT_EQ(set->profiles().size(), plain_->profiles().size());
  EXPECT_EQ(set->weights_bytes(), plain_->weights_bytes());
  EXPECT_TRUE(HasCodec(*set));
  EXPECT_GT(set->SectionBytes(kCodecSection), 0);
  ASSERT_OK_AND_ASSIGN(const CodecWeights read, ReadCodecWeights(*set));
  EXPECT_EQ(CodecDigest(read), CodecDigest(weights_));
  ASSERT_OK_AND_ASSIGN(const auto codec, OpenCodec(*set));
  EXPECT_EQ(codec->digest(), CodecDigest(weights_));
}

TEST_F(CodecSectionTest, WeightsInEightBitsComeBackAndTakeHalfTheBytes) {
  ASSERT_OK_AND_ASSIGN(const auto half, Opened(ToSection(weights_, plain_->layout().kv())));
  const std::vector<float> before = weights_.units[1].predictor;
  RoundToInt8(weights_);
  const UnitWeights& unit = weights_.units[1];
  for (std::size_t i = 0; i < before.size(); ++i)
    ASSERT_LE(std::fabs(unit.predictor[i] - before[i]), 0.5001f * unit.predictor_scale[i % unit.predictor_scale.size()]);
  ASSERT_OK_AND_ASSIGN(const auto set, Opened(ToSection(weights_, plain_->layout().kv())));
  ASSERT_OK_AND_ASSIGN(const CodecWeights read, ReadCodecWeights(*set));
  EXPECT_EQ(CodecDigest(read), CodecDigest(weights_));
  EXPECT_EQ(read.units[1].rotation_scale, unit.rotation_scale);
  const int64_t rotation = static_cast<int64_t>(unit.rotation.size()), scales = static_cast<int64_t>(unit.variance.size());
  EXPECT_LT(set->SectionBytes(kCodecSection), half->SectionBytes(kCodecSection) - rotation + 4 * scales);
}

TEST_F(CodecSectionTest, UnknownWeightsAreRefusedByName) {
  SetSection section = ToSection(weights_, plain_->layout().kv());
  section.description.replace(section.description.find("\"f16\""), 5, "\"f99\"");
  ASSERT_OK_AND_ASSIGN(const auto set, Opened(section));
  EXPECT_THAT(ReadCodecWeights(*set), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("f99")));
}

TEST_F(CodecSectionTest, ASetWithoutACodecLoadsAndSaysSo) {
  EXPECT_FALSE(HasCodec(*plain_));
  EXPECT_THAT(OpenCodec(*plain_), HasReason("PREDICTOR_MISSING"));
}

TEST_F(CodecSectionTest, AnotherVersionIsRefusedWithBoth) {
  SetSection section = ToSection(weights_, plain_->layout().kv());
  section.description.replace(section.description.find("\"version\":1"), 11, "\"version\":7");
  ASSERT_OK_AND_ASSIGN(const auto set, Opened(section));
  EXPECT_THAT(ReadCodecWeights(*set), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has 7, this program reads 1")));
}

TEST_F(CodecSectionTest, WhatDoesNotFitIsRefusedByName) {
  SetSection section = ToSection(weights_, plain_->layout().kv());
  section.tensors.erase("codec.unit.1.predictor");
  ASSERT_OK_AND_ASSIGN(auto set, Opened(section));
  EXPECT_THAT(ReadCodecWeights(*set), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("codec.unit.1.predictor is missing")));
  section = ToSection(weights_, plain_->layout().kv());
  section.tensors["codec.frequencies"].values[3] += 0.5f;
  ASSERT_OK_AND_ASSIGN(set, Opened(section));
  EXPECT_THAT(ReadCodecWeights(*set), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("frequency 3")));
  section = ToSection(weights_, plain_->layout().kv());
  section.tensors["other.tensor"] = {{1}, {0.0f}, SetSection::Type::kF32};
  EXPECT_THAT(WithSection(*plain_, section), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("other.tensor")));
}

}  // namespace
}  // namespace riskkv

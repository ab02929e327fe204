#include "common/codec/block_codec.h"

#include <cmath>
#include <limits>

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

constexpr float kOmit = std::numeric_limits<float>::infinity();

// Mean over the elements of the squared error in units of the planes' variances.
double ScaledError(const BlockCodec& codec, const KvBlock& a, const KvBlock& b) {
  const auto x = UndoRope(codec.layout(), a), y = UndoRope(codec.layout(), b);
  double sum = 0;
  for (int l = 0; l < codec.layout().n_layer; ++l) {
    for (int part = 0; part < 2; ++part) {
      const double scale = codec.weights().scale[2 * static_cast<std::size_t>(l) + part];
      for (int64_t i = 0; i < a.range.size() * a.kv; ++i) {
        const double d = (x->rows(l, part)[i] - y->rows(l, part)[i]) / scale;
        sum += d * d;
      }
    }
  }
  return sum / static_cast<double>(a.data.size());
}

TEST(BlockCodec, TheErrorIsBoundedByTheStepAndFallsWithIt) {
  for (const auto& [layers, heads, dim] : {std::tuple{10, 2, 6}, {7, 1, 8}, {6, 3, 4}, {9, 2, 5}}) {
    const KvLayout layout = SmallLayout(layers, heads, dim);
    ASSERT_OK_AND_ASSIGN(const auto codec, FittedCodec(layout));
    CodecScratch scratch;
    double last = 1;
    for (const float step : {1.0f, 0.25f, 0.05f}) {
      ASSERT_OK_AND_ASSIGN(const CodedPolicy policy, codec->MakePolicy(step));
      // Louder than the calibration's text: bytes grow, the error does not.
      for (const float loudness : {1.0f, 20.0f}) {
        const KvBlock exact = SyntheticCache(layout, {70, 150}, 5, loudness);
        ASSERT_OK_AND_ASSIGN(const std::string bytes, codec->Encode(policy, exact, scratch));
        ASSERT_OK_AND_ASSIGN(const KvBlock decoded, codec->Decode(policy, bytes, scratch));
        EXPECT_EQ(decoded.range, exact.range);
        const double bound = (kDeadZone * step) * (kDeadZone * step);
        const double fp16 = 1e-6 * loudness * loudness;
        EXPECT_LE(ScaledError(*codec, exact, decoded), bound + fp16) << layers << " layers, step " << step;
        if (loudness == 1.0f) {
          EXPECT_LT(ScaledError(*codec, exact, decoded), last);
          last = ScaledError(*codec, exact, decoded);
        }
      }
    }
  }
}

TEST(BlockCodec, IndicesComeBackForRandomShapes) {
  std::mt19937 random(9);
  for (int trial = 0; trial < 12; ++trial) {
    const KvLayout layout = SmallLayout(1 + static_cast<int>(random() % 12), 1 + static_cast<int>(random() % 3),
                                        2 + static_cast<int>(random() % 7));
    ASSERT_OK_AND_ASSIGN(CodecWeights weights,
                         FitWeights(layout, trial % 2 == 0 ? PairPlan(layout.n_layer) : SplitPlan(layout.n_layer)));
    ASSERT_OK_AND_ASSIGN(const auto codec, BlockCodec::Create(layout, std::move(weights)));
    std::vector<float> steps;
    for (std::size_t u = 0; u < codec->weights().units.size(); ++u)
      steps.push_back(random() % 5 == 0 ? kOmit : 0.02f + static_cast<float>(random() % 100) / 100);
    ASSERT_OK_AND_ASSIGN(const CodedPolicy policy, codec->MakePolicy(steps));
    const int64_t begin = static_cast<int64_t>(random() % 1000);
    const KvBlock block = SyntheticCache(layout, {begin, begin + 1 + static_cast<int64_t>(random() % 128)}, 5);
    CodecScratch scratch;
    ASSERT_OK_AND_ASSIGN(const QuantisedBlock sent, codec->Quantise(policy, block, scratch));
    ASSERT_OK_AND_ASSIGN(const std::string bytes, codec->Pack(policy, sent));
    ASSERT_OK_AND_ASSIGN(const QuantisedBlock received, codec->Unpack(policy, bytes));
    EXPECT_EQ(received.range, sent.range);
    EXPECT_EQ(received.units, sent.units) << "trial " << trial;
  }
}

// A token's bytes are those of its own cells: it may be streamed in any block.
TEST(BlockCodec, ATokensIndicesDoNotDependOnItsBlock) {
  const KvLayout layout = SmallLayout();
  ASSERT_OK_AND_ASSIGN(const auto codec, FittedCodec(layout));
  ASSERT_OK_AND_ASSIGN(const CodedPolicy policy, codec->MakePolicy(0.1f));
  const KvBlock whole = SyntheticCache(layout, {100, 228}, 3);
  ASSERT_OK_AND_ASSIGN(const KvBlock part, Slice(whole, {137, 151}, whole.layers));
  CodecScratch one, two;
  ASSERT_OK_AND_ASSIGN(const QuantisedBlock a, codec->Quantise(policy, whole, one));
  ASSERT_OK_AND_ASSIGN(const QuantisedBlock b, codec->Quantise(policy, part, two));
  for (std::size_t u = 0; u < a.units.size(); ++u) {
    const std::size_t width = b.units[u].size() / 14;
    for (std::size_t j = 0; j < width; ++j) {
      for (std::size_t t = 0; t < 14; ++t) ASSERT_EQ(b.units[u][j * 14 + t], a.units[u][j * 128 + 37 + t]);
    }
  }
}

// A request that moves twice is quantised to the same levels: a second coded move adds no error.
TEST(BlockCodec, ASecondMoveFindsTheSameIndices) {
  const KvLayout layout = SmallLayout();
  ASSERT_OK_AND_ASSIGN(const auto codec, FittedCodec(layout));
  ASSERT_OK_AND_ASSIGN(const CodedPolicy policy, codec->MakePolicy(0.25f));
  CodecScratch scratch;
  ASSERT_OK_AND_ASSIGN(const QuantisedBlock first, codec->Quantise(policy, SyntheticCache(layout, {0, 128}, 3), scratch));
  ASSERT_OK_AND_ASSIGN(const KvBlock decoded, codec->Reconstruct(policy, first, scratch));
  ASSERT_OK_AND_ASSIGN(const QuantisedBlock second, codec->Quantise(policy, decoded, scratch));
  EXPECT_EQ(second.units, first.units);
}

// The weights lie on the backend that was passed, as long as the codec lives and no longer.
TEST(BlockCodec, ABackendThatWasPassedHoldsTheWeightsAndGetsThemBack) {
  const KvLayout layout = SmallLayout();
  std::unique_ptr<kernels::Backend> backend;
  ASSERT_TRUE(kernels::CreateBackend(kernels::BackendChoice::kCpu, 2, &backend).ok());
  ASSERT_OK_AND_ASSIGN(CodecWeights weights, FitWeights(layout, PairPlan(layout.n_layer)));
  ASSERT_OK_AND_ASSIGN(auto codec, BlockCodec::Create(layout, std::move(weights), backend.get()));
  ASSERT_OK_AND_ASSIGN(const auto own, FittedCodec(layout));
  ASSERT_OK_AND_ASSIGN(const CodedPolicy policy, codec->MakePolicy(0.25f));
  const KvBlock block = SyntheticCache(layout, {5, 90}, 3);
  CodecScratch scratch;
  ASSERT_OK_AND_ASSIGN(const std::string bytes, codec->Encode(policy, block, scratch));
  ASSERT_OK_AND_ASSIGN(const std::string from_own, own->Encode(policy, block, scratch));
  EXPECT_EQ(bytes, from_own);
  constexpr kernels::CodecHandle kFirst = 1;
  EXPECT_TRUE(backend->codec().Multiply(kFirst, 0, 1).ok());
  codec.reset();
  EXPECT_EQ(backend->codec().Multiply(kFirst, 0, 1).code(), kernels::Code::kNotFound);
}

TEST(BlockCodec, LevelsOfAnotherSizeAreRefusedWithBothSizes) {
  const KvLayout layout = SmallLayout();
  ASSERT_OK_AND_ASSIGN(const auto codec, FittedCodec(layout));
  ASSERT_OK_AND_ASSIGN(const CodedPolicy policy, codec->MakePolicy(0.25f));
  CodecScratch scratch;
  ASSERT_OK_AND_ASSIGN(QuantisedBlock levels, codec->Quantise(policy, SyntheticCache(layout, {0, 10}, 3), scratch));
  levels.units[1].pop_back();
  EXPECT_THAT(codec->Reconstruct(policy, levels, scratch),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("coded unit 1: 479 levels, wanted 480")));
}

TEST(BlockCodec, AFlippedBitAnywhereAndEveryTruncationIsRefused) {
  const KvLayout layout = SmallLayout(6, 1, 4);
  ASSERT_OK_AND_ASSIGN(const auto codec, FittedCodec(layout));
  ASSERT_OK_AND_ASSIGN(const CodedPolicy policy, codec->MakePolicy(0.5f));
  CodecScratch scratch;
  ASSERT_OK_AND_ASSIGN(const std::string bytes, codec->Encode(policy, SyntheticCache(layout, {0, 20}, 3), scratch));
  ASSERT_THAT(codec->Decode(policy, bytes, scratch), IsOk());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    EXPECT_THAT(codec->Decode(policy, damaged, scratch), StatusIs(absl::StatusCode::kDataLoss)) << "byte " << i;
    EXPECT_THAT(codec->Decode(policy, bytes.substr(0, i), scratch), StatusIs(absl::StatusCode::kDataLoss));
  }
  EXPECT_THAT(codec->Decode(policy, bytes + "x", scratch), StatusIs(absl::StatusCode::kDataLoss));
}

// Behind the checksum too: lengths that lie, tokens and positions out of range, codes that do not end.
TEST(BlockCodec, DamageBehindARightChecksumIsAnErrorOrWholeCells) {
  const KvLayout layout = SmallLayout(6, 1, 4);
  ASSERT_OK_AND_ASSIGN(const auto codec, FittedCodec(layout));
  ASSERT_OK_AND_ASSIGN(const CodedPolicy policy, codec->MakePolicy(0.5f));
  CodecScratch scratch;
  ASSERT_OK_AND_ASSIGN(const std::string bytes, codec->Encode(policy, SyntheticCache(layout, {0, 20}, 3), scratch));
  std::mt19937 random(5);
  int refused = 0;
  for (std::size_t i = 0; i < 3000; ++i) {
    std::string damaged = bytes;
    damaged[i % damaged.size()] = static_cast<char>(random());
    StampChecksum(damaged);
    const auto cells = codec->Decode(policy, damaged, scratch);
    refused += cells.ok() ? 0 : 1;
    if (cells.ok()) {
      EXPECT_THAT(CheckBlock(layout, *cells), IsOk());
    }
  }
  EXPECT_GT(refused, 1500);  // nearly every damage shows at the coder's end
}

TEST(BlockCodec, BytesOfAnotherProfileOrAnotherSetAreRefused) {
  const KvLayout layout = SmallLayout();
  ASSERT_OK_AND_ASSIGN(const auto codec, FittedCodec(layout));
  ASSERT_OK_AND_ASSIGN(CodecWeights other_weights, FitWeights(layout, PairPlan(layout.n_layer), 0.1));
  ASSERT_OK_AND_ASSIGN(const auto other, BlockCodec::Create(layout, std::move(other_weights)));
  ASSERT_OK_AND_ASSIGN(const CodedPolicy fine, codec->MakePolicy(0.1f));
  ASSERT_OK_AND_ASSIGN(const CodedPolicy coarse, codec->MakePolicy(0.2f));
  ASSERT_OK_AND_ASSIGN(const CodedPolicy others, other->MakePolicy(0.1f));
  CodecScratch scratch;
  ASSERT_OK_AND_ASSIGN(const std::string bytes, codec->Encode(fine, SyntheticCache(layout, {0, 9}, 3), scratch));
  EXPECT_THAT(codec->Decode(coarse, bytes, scratch), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(other->Decode(others, bytes, scratch), HasReason("PREDICTOR_STALE"));
}

TEST(BlockCodec, CellsThatCannotBeCodedAreRefusedByName) {
  const KvLayout layout = SmallLayout();
  ASSERT_OK_AND_ASSIGN(const auto codec, FittedCodec(layout));
  ASSERT_OK_AND_ASSIGN(const CodedPolicy policy, codec->MakePolicy(0.1f));
  CodecScratch scratch;
  KvBlock block = SyntheticCache(layout, {0, 9}, 3);
  ASSERT_OK_AND_ASSIGN(const KvBlock few_layers, Slice(block, block.range, {0, 1}));
  EXPECT_THAT(codec->Encode(policy, few_layers, scratch), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("all 10 layers")));
  EXPECT_THAT(codec->Encode(policy, SyntheticCache(layout, {0, 129}, 3), scratch),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("129")));
  block.data[17] = 0x7c00;  // infinity
  EXPECT_THAT(codec->Encode(policy, block, scratch), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not finite")));
  block.data[17] = 0x7bff;  // 65504: many millions of steps of a thousandth
  ASSERT_OK_AND_ASSIGN(const CodedPolicy tiny, codec->MakePolicy(1e-3f));
  EXPECT_THAT(codec->Encode(tiny, block, scratch), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("coded unit")));
  EXPECT_THAT(codec->MakePolicy(0.0f), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(codec->MakePolicy(std::vector<float>{1}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 steps for 5")));
}

TEST(CodecWeights, WhatDoesNotFitThePlanIsRefusedByName) {
  const KvLayout layout = SmallLayout();
  ASSERT_OK_AND_ASSIGN(const CodecWeights good, FitWeights(layout, PairPlan(layout.n_layer)));
  CodecWeights bad = good;
  bad.units[2].predictor.pop_back();
  EXPECT_THAT(BlockCodec::Create(layout, bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unit 2: predictor")));
  bad = good;
  bad.units[1].variance[0] = 0;
  EXPECT_THAT(BlockCodec::Create(layout, bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unit 1")));
  bad = good;
  bad.scale[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(BlockCodec::Create(layout, bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("scale")));
}

// What costs more is coded more finely at the same step, and the bytes pay for it.
TEST(CodecFitter, APlaneOfMoreSensitivityGetsASmallerError) {
  const KvLayout layout = SmallLayout();
  CodecFitter fitter(layout, PairPlan(layout.n_layer), 1);
  for (int w = 0; w < 8; ++w) {
    ASSERT_OK_AND_ASSIGN(const PreRopeBlock rows, UndoRope(layout, SyntheticCache(layout, {0, 128}, 100u + w)));
    fitter.Add(rows, 0, 128);
  }
  std::vector<double> sensitivity(20, 1.0);
  sensitivity[2 * 5 + kPartV] = 16;
  const std::vector<float> deviations = fitter.Deviations();
  auto error = [&](const std::vector<double>& s) {
    CodecScratch scratch;
    const auto codec = *BlockCodec::Create(layout, *fitter.Solve(kCodecRidge, s));
    const KvBlock exact = SyntheticCache(layout, {0, 128}, 5);
    const CodedPolicy policy = *codec->MakePolicy(0.5f);
    const KvBlock decoded = *codec->Decode(policy, *codec->Encode(policy, exact, scratch), scratch);
    const auto x = UndoRope(layout, exact), y = UndoRope(layout, decoded);
    double sum = 0;
    for (int64_t i = 0; i < 128 * exact.kv; ++i) sum += std::pow(x->rows(5, kPartV)[i] - y->rows(5, kPartV)[i], 2);
    return sum / (128 * exact.kv) / std::pow(deviations[2 * 5 + kPartV], 2);
  };
  EXPECT_LT(error(sensitivity), error({}) / 4);
  sensitivity[0] = 0;
  EXPECT_THAT(fitter.Solve(kCodecRidge, sensitivity), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(CodecFitter, TooFewTokensAreRefusedWithBothNumbers) {
  const KvLayout layout = SmallLayout();
  CodecFitter fitter(layout, PairPlan(layout.n_layer), 1);
  EXPECT_THAT(fitter.Solve(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 tokens to fit transforms of 96")));
}

}  // namespace
}  // namespace riskkv

#include "common/predictor/features.h"

#include <cmath>

#include "common/predictor/group_fitter.h"
#include "kernels/fp16.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using kernels::FloatToHalf;
using kernels::HalfToFloat;
using kernels::RopePairing;

KvLayout Layout(RopePairing pairing, int n_layer = 2) {
  KvLayout layout;
  layout.n_layer = n_layer;
  layout.n_head_kv = 2;
  layout.head_dim = 8;
  layout.rope.pairing = pairing;
  layout.rope.rotary_dim = pairing == RopePairing::kNone ? 0 : 6;  // the last two pass
  layout.rope.freq_base = 100;
  return layout;
}

float Value(int layer, int part, int64_t token, int i) {
  return static_cast<float>(std::sin(1.0 + layer * 31 + part * 7 + token * 3 + i));
}

// A cache whose keys before RoPE are Value(...), rotated by the textbook formula.
KvBlock RotatedBlock(const KvLayout& layout, TokenRange range) {
  KvBlock block = KvBlock::Make(layout, range, AllLayers(layout));
  const RopeParams& r = layout.rope;
  for (int l = 0; l < layout.n_layer; ++l) {
    for (int64_t t = 0; t < range.size(); ++t) {
      for (int i = 0; i < layout.kv(); ++i) {
        block.v(l)[t * layout.kv() + i] = FloatToHalf(Value(l, 1, t, i));
        const int head = i / layout.head_dim * layout.head_dim, dim = i % layout.head_dim;
        double out = Value(l, 0, t, i);
        if (dim < r.rotary_dim) {
          const bool halves = r.pairing == RopePairing::kHalves;
          const int pair = halves ? dim % (r.rotary_dim / 2) : dim / 2;
          const int lo = halves ? pair : 2 * pair, hi = halves ? pair + r.rotary_dim / 2 : 2 * pair + 1;
          const double angle =
              static_cast<double>(range.begin + t) * std::pow(r.freq_base, -2.0 * pair / r.rotary_dim);
          const double a = Value(l, 0, t, head + lo), b = Value(l, 0, t, head + hi);
          out = dim == lo ? a * std::cos(angle) - b * std::sin(angle)
                          : a * std::sin(angle) + b * std::cos(angle);
        }
        block.k(l)[t * layout.kv() + i] = FloatToHalf(static_cast<float>(out));
      }
    }
  }
  return block;
}

TEST(UndoRope, GivesTheKeysBeforeForBothPairings) {
  for (RopePairing pairing : {RopePairing::kNeighbours, RopePairing::kHalves}) {
    const KvLayout layout = Layout(pairing);
    const TokenRange range{1000, 1007};
    ASSERT_OK_AND_ASSIGN(const PreRopeBlock rows, UndoRope(layout, RotatedBlock(layout, range)));
    for (int l = 0; l < layout.n_layer; ++l) {
      for (int part = 0; part < 2; ++part) {
        for (int64_t t = 0; t < range.size(); ++t) {
          for (int i = 0; i < layout.kv(); ++i)
            EXPECT_NEAR(rows.rows(l, part)[t * layout.kv() + i], Value(l, part, t, i), 2e-3);
        }
      }
    }
  }
}

TEST(GatherColumns, PutsKThenVOfEachLayerSideBySide) {
  KvLayout layout = Layout(RopePairing::kNone, 3);
  KvBlock block = KvBlock::Make(layout, {10, 14}, AllLayers(layout));
  for (std::size_t i = 0; i < block.data.size(); ++i) block.data[i] = FloatToHalf(static_cast<float>(i));
  ASSERT_OK_AND_ASSIGN(const PreRopeBlock rows, UndoRope(layout, block));
  const std::vector<double> x = GatherColumns(rows, {0, 2}, 11, 13);
  const int kv = layout.kv(), width = 4 * kv;
  ASSERT_EQ(x.size(), static_cast<std::size_t>(2 * width));
  for (int t = 0; t < 2; ++t) {
    for (int i = 0; i < kv; ++i) {
      EXPECT_EQ(x[t * width + i], HalfToFloat(block.k(0)[(t + 1) * kv + i]));
      EXPECT_EQ(x[t * width + 3 * kv + i], HalfToFloat(block.v(2)[(t + 1) * kv + i]));
    }
  }
}

TEST(RedoRope, TakesUndoRopeBackToTheSameHalves) {
  for (RopePairing pairing : {RopePairing::kNone, RopePairing::kNeighbours, RopePairing::kHalves}) {
    const KvLayout layout = Layout(pairing, 3);
    KvBlock block = KvBlock::Make(layout, {7, 90}, {0, 2});
    uint32_t state = 3;
    for (uint16_t& v : block.data)
      v = FloatToHalf(static_cast<float>((state = state * 1664525u + 1013904223u) >> 16) / 32768.0f - 1.0f);
    ASSERT_OK_AND_ASSIGN(const PreRopeBlock rows, UndoRope(layout, block));
    ASSERT_OK_AND_ASSIGN(const KvBlock again, RedoRope(layout, rows));
    ASSERT_EQ(again.range, block.range);
    ASSERT_EQ(again.layers, block.layers);
    int moved = 0;
    for (std::size_t i = 0; i < block.data.size(); ++i) {
      // Two rotations in fp32 may end on the neighbouring half.
      EXPECT_NEAR(HalfToFloat(again.data[i]), HalfToFloat(block.data[i]), 1e-3);
      moved += again.data[i] != block.data[i];
    }
    EXPECT_LT(moved, static_cast<int>(block.data.size() / 100));
  }
}

// A checkpoint: sums saved half way and taken up by another fitter give the same predictors, bit for bit.
TEST(GroupFitter, GoesOnFromItsCheckpoint) {
  const KvLayout layout = Layout(RopePairing::kNone, 6);
  std::vector<PreRopeBlock> windows;
  for (uint32_t w = 0; w < 4; ++w) {
    KvBlock block = KvBlock::Make(layout, {0, 60}, AllLayers(layout));
    uint32_t state = 100 + w;
    for (uint16_t& v : block.data)
      v = FloatToHalf(static_cast<float>((state = state * 1664525u + 1013904223u) >> 16) / 65536.0f);
    ASSERT_OK_AND_ASSIGN(windows.emplace_back(), UndoRope(layout, block));
  }
  auto add = [&](GroupFitter& fitter, std::size_t from, std::size_t to) {
    for (std::size_t w = from; w < to; ++w) fitter.Add(windows[w], 4, 60, w == 1);
  };
  GroupFitter whole(layout, PeriodFourGroups(6), 1), first(layout, PeriodFourGroups(6), 1), second(layout, PeriodFourGroups(6), 1);
  add(whole, 0, 4);
  add(first, 0, 2);
  std::string saved;
  for (std::string_view part : first.Parts()) saved += part;
  std::string_view bytes = saved;
  ASSERT_TRUE(second.Restore(&bytes));
  EXPECT_TRUE(bytes.empty());
  add(second, 2, 4);
  ASSERT_OK_AND_ASSIGN(const auto expected, whole.Solve(DefaultLambdaGrid()));
  ASSERT_OK_AND_ASSIGN(const auto found, second.Solve(DefaultLambdaGrid()));
  EXPECT_EQ(found[0].tensors.b, expected[0].tensors.b);
  EXPECT_EQ(found[0].tensors.bias, expected[0].tensors.bias);
  EXPECT_EQ(found[0].info.held_out_error, expected[0].info.held_out_error);
  std::string_view too_short = std::string_view(saved).substr(0, saved.size() - 1);
  EXPECT_FALSE(second.Restore(&too_short));
}

// Groups that share their anchors share sums, and get the predictors they would get alone.
TEST(GroupFitter, SharedAnchorsGiveThePredictorsOfEachGroupAlone) {
  const KvLayout layout = Layout(RopePairing::kNone, 10);
  ASSERT_OK_AND_ASSIGN(const GroupLayout shared, MakeGroupLayout("all-anchors", 10));
  GroupFitter together(layout, shared.groups, 2), first(layout, {shared.groups[0]}, 1), second(layout, {shared.groups[1]}, 1);
  for (uint32_t w = 0; w < 5; ++w) {
    KvBlock block = KvBlock::Make(layout, {0, 80}, AllLayers(layout));
    uint32_t state = 40 + w;
    for (uint16_t& v : block.data)
      v = FloatToHalf(static_cast<float>((state = state * 1664525u + 1013904223u) >> 16) / 65536.0f);
    ASSERT_OK_AND_ASSIGN(const PreRopeBlock rows, UndoRope(layout, block));
    for (GroupFitter* f : {&together, &first, &second}) f->Add(rows, 0, 80, w == 2);
  }
  ASSERT_OK_AND_ASSIGN(const auto both, together.Solve({1e-2, 1e-1}));
  ASSERT_OK_AND_ASSIGN(const auto a, first.Solve({1e-2, 1e-1}));
  ASSERT_OK_AND_ASSIGN(const auto b, second.Solve({1e-2, 1e-1}));
  ASSERT_EQ(both.size(), 2u);
  for (const auto& [found, alone] : {std::pair{&both[0], &a[0]}, std::pair{&both[1], &b[0]}}) {
    EXPECT_EQ(found->lambda.lambda, alone->lambda.lambda);
    EXPECT_NEAR(found->info.held_out_error, alone->info.held_out_error, 1e-9);
    ASSERT_EQ(found->tensors.b.size(), alone->tensors.b.size());
    for (std::size_t i = 0; i < alone->tensors.b.size(); ++i) EXPECT_NEAR(found->tensors.b[i], alone->tensors.b[i], 1e-5);
    EXPECT_NEAR(found->info.layers[1].v_variance, alone->info.layers[1].v_variance, 1e-9);
  }
}

// Six layers whose targets are linear in their anchors, whatever the number of threads.
TEST(GroupFitter, FindsALinearModelAndDoesNotDependOnThreads) {
  const KvLayout layout = Layout(RopePairing::kNone, 10);
  const std::vector<GroupSpec> groups = PeriodFourGroups(10);
  std::vector<FittedGroup> results[2];
  for (int threads : {1, 3}) {
    GroupFitter fitter(layout, groups, threads);
    for (int window = 0; window < 4; ++window) {
      KvBlock block = KvBlock::Make(layout, {0, 100}, AllLayers(layout));
      uint32_t state = 17u + static_cast<uint32_t>(window);
      for (uint16_t& v : block.data)
        v = FloatToHalf(static_cast<float>((state = state * 1664525u + 1013904223u) >> 16) / 65536.0f);
      for (int g = 0; g < 2; ++g) {
        for (std::size_t i = 0; i < 100u * layout.kv(); ++i) {
          block.k(4 * g + 2)[i] = block.v(4 * g + 1)[i];
          block.v(4 * g + 2)[i] = block.k(4 * g)[i];
          block.k(4 * g + 3)[i] = FloatToHalf(-HalfToFloat(block.k(4 * g + 5)[i]));
          block.v(4 * g + 3)[i] = block.v(4 * g + 4)[i];
        }
      }
      ASSERT_OK_AND_ASSIGN(const PreRopeBlock rows, UndoRope(layout, block));
      fitter.Add(rows, 4, 100, /*held_out=*/window == 3);
    }
    EXPECT_EQ(fitter.fit_rows(), 3 * 96);
    EXPECT_EQ(fitter.held_out_rows(), 96);
    ASSERT_OK_AND_ASSIGN(results[threads == 3], fitter.Solve(DefaultLambdaGrid()));
  }
  ASSERT_EQ(results[0].size(), 2u);
  for (std::size_t g = 0; g < 2; ++g) {
    EXPECT_LT(results[0][g].info.held_out_error, 1e-9);
    EXPECT_EQ(results[0][g].info.layers[1].layer, static_cast<int>(4 * g + 3));
    EXPECT_EQ(results[0][g].tensors.b, results[1][g].tensors.b);
    EXPECT_EQ(results[0][g].tensors.bias, results[1][g].tensors.bias);
  }
}

TEST(GroupFitter, SaysWhenThereIsTooLittleText) {
  const KvLayout layout = Layout(RopePairing::kNone, 6);
  GroupFitter fitter(layout, PeriodFourGroups(6), 1);
  ASSERT_OK_AND_ASSIGN(const PreRopeBlock rows,
                       UndoRope(layout, KvBlock::Make(layout, {0, 8}, AllLayers(layout))));
  fitter.Add(rows, 0, 8, false);
  EXPECT_THAT(fitter.Solve({1e-3}), ::riskkv::testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                                                ::testing::HasSubstr("8 tokens")));
}

}  // namespace
}  // namespace riskkv

#include "common/kv/layout.h"

#include <random>

#include "common/base/digest.h"
#include "common/kv/convert.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

KvLayout Layout(int n_layer, int n_head_kv, int head_dim) {
  KvLayout layout;
  layout.n_layer = n_layer;
  layout.n_head_kv = n_head_kv;
  layout.head_dim = head_dim;
  return layout;
}

// A block whose elements tell their own place: every element is different from its neighbours.
KvBlock RandomBlock(const KvLayout& layout, TokenRange range, std::vector<int> layers, uint32_t seed) {
  KvBlock block = KvBlock::Make(layout, range, std::move(layers));
  std::mt19937 rng(seed);
  for (uint16_t& x : block.data) x = static_cast<uint16_t>(rng());
  return block;
}

TEST(KvLayoutTest, Sizes) {
  const KvLayout layout = Layout(30, 3, 64);
  EXPECT_EQ(layout.kv(), 192);
  EXPECT_EQ(layout.bytes_per_token_layer(), 768);
  EXPECT_EQ(layout.bytes_per_token(), 23040);
}

TEST(KvLayoutTest, LayerLists) {
  const KvLayout layout = Layout(5, 1, 2);
  EXPECT_THAT(AllLayers(layout), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(LayersExcept(layout, {3, 1}), ElementsAre(0, 2, 4));
}

TEST(KvBlockTest, OrderIsLayerThenPartThenToken) {
  const KvLayout layout = Layout(4, 1, 2);
  KvBlock block = KvBlock::Make(layout, {10, 13}, {1, 3});
  ASSERT_EQ(block.data.size(), 2u * 2 * 3 * 2);
  EXPECT_EQ(block.k(0), block.data.data());
  EXPECT_EQ(block.v(0), block.data.data() + 6);
  EXPECT_EQ(block.k(1), block.data.data() + 12);
  EXPECT_EQ(block.v(1), block.data.data() + 18);
  EXPECT_EQ(block.IndexOf(3), 1);
  EXPECT_EQ(block.IndexOf(2), -1);
  EXPECT_EQ(block.IndexOf(9), -1);
  EXPECT_EQ(block.bytes(), 48);
}

TEST(KvBlockTest, DigestIsThatOfTheBytes) {
  const KvLayout layout = Layout(4, 1, 2);
  KvBlock block = RandomBlock(layout, {0, 3}, {0, 2}, 1);
  const std::string digest = block.Digest();
  EXPECT_EQ(digest, Sha256Hex({reinterpret_cast<const char*>(block.data.data()), block.data.size() * 2}));
  for (uint16_t& x : block.data) {
    x ^= 1;
    EXPECT_NE(block.Digest(), digest);
    x ^= 1;
  }
}

TEST(KvBlockTest, EmptyRange) {
  const KvLayout layout = Layout(4, 1, 2);
  const KvBlock block = KvBlock::Make(layout, {7, 7}, AllLayers(layout));
  EXPECT_TRUE(block.data.empty());
  EXPECT_OK(CheckBlock(layout, block));
  EXPECT_OK(Slice(block, {7, 7}, {1}));
}

TEST(SliceTest, EqualsElementwiseCopy) {
  std::mt19937 rng(7);
  for (int round = 0; round < 200; ++round) {
    const KvLayout layout = Layout(1 + static_cast<int>(rng() % 8), 1 + static_cast<int>(rng() % 3), 2);
    const int64_t begin = rng() % 100;
    const int64_t n = 1 + rng() % 20;
    std::vector<int> layers, chosen;
    for (int l : AllLayers(layout)) {
      if (rng() % 4 > 0) layers.push_back(l);
    }
    for (int l : layers) {
      if (rng() % 2 > 0) chosen.push_back(l);
    }
    const KvBlock block = RandomBlock(layout, {begin, begin + n}, layers, rng());
    const int64_t from = begin + rng() % n;
    const int64_t to = from + rng() % (begin + n - from + 1);
    ASSERT_OK_AND_ASSIGN(const KvBlock slice, Slice(block, {from, to}, chosen));
    ASSERT_OK(CheckBlock(layout, slice));
    ASSERT_EQ(slice.layers, chosen);
    for (int i = 0; i < static_cast<int>(chosen.size()); ++i) {
      const int source = block.IndexOf(chosen[static_cast<std::size_t>(i)]);
      for (int64_t x = 0; x < (to - from) * block.kv; ++x) {
        ASSERT_EQ(slice.k(i)[x], block.k(source)[(from - begin) * block.kv + x]);
        ASSERT_EQ(slice.v(i)[x], block.v(source)[(from - begin) * block.kv + x]);
      }
    }
  }
}

TEST(SliceTest, RefusesWhatIsNotThere) {
  const KvLayout layout = Layout(6, 1, 2);
  const KvBlock block = RandomBlock(layout, {10, 20}, {0, 2, 4}, 1);
  const auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(Slice(block, {9, 12}, {0}), StatusIs(kBad, HasSubstr("[9, 12)")));
  EXPECT_THAT(Slice(block, {10, 21}, {0}), StatusIs(kBad, HasSubstr("[10, 21)")));
  EXPECT_THAT(Slice(block, {15, 14}, {0}), StatusIs(kBad));
  EXPECT_THAT(Slice(block, {10, 12}, {1}), StatusIs(kBad, HasSubstr("layer 1")));
  EXPECT_THAT(Slice(block, {10, 12}, {2, 0}), StatusIs(kBad, HasSubstr("ascending")));
  EXPECT_THAT(Slice(block, {10, 12}, {2, 2}), StatusIs(kBad, HasSubstr("ascending")));
}

TEST(CheckBlockTest, NamesTheFlaw) {
  const KvLayout layout = Layout(6, 1, 2);
  const auto kBad = absl::StatusCode::kInvalidArgument;
  const KvBlock good = RandomBlock(layout, {0, 4}, {0, 5}, 1);
  EXPECT_OK(CheckBlock(layout, good));
  KvBlock bad = good;
  bad.data.pop_back();
  EXPECT_THAT(CheckBlock(layout, bad), StatusIs(kBad, HasSubstr("elements")));
  bad = good;
  bad.layers = {0, 6};
  EXPECT_THAT(CheckBlock(layout, bad), StatusIs(kBad, HasSubstr("layers 0,6")));
  bad = good;
  bad.layers = {5, 0};
  EXPECT_THAT(CheckBlock(layout, bad), StatusIs(kBad));
  bad = good;
  bad.range = {-1, 3};
  EXPECT_THAT(CheckBlock(layout, bad), StatusIs(kBad, HasSubstr("range")));
  bad = good;
  bad.range = {0, int64_t{1} << 62};
  EXPECT_THAT(CheckBlock(layout, bad), StatusIs(kBad, HasSubstr("range")));
  bad = good;
  bad.kv = 4;
  EXPECT_THAT(CheckBlock(layout, bad), StatusIs(kBad, HasSubstr("rows of 4")));
}

TEST(ConvertTest, CodesAndMessages) {
  using kernels::Code;
  EXPECT_OK(ToAbsl(kernels::Status()));
  EXPECT_THAT(ToAbsl({Code::kNotFound, "set 7"}), StatusIs(absl::StatusCode::kNotFound, "set 7"));
  EXPECT_THAT(ToAbsl({Code::kInvalidArgument, "x"}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ToAbsl({Code::kResourceExhausted, "x"}), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(ToAbsl({Code::kUnavailable, "x"}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(ToAbsl({Code::kInternal, "x"}), StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace riskkv

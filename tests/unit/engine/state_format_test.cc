#include "common/engine/llama/state_format.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

KvLayout SmallLayout() {
  KvLayout layout;
  layout.n_layer = 3;
  layout.n_head_kv = 2;
  layout.head_dim = 4;
  return layout;
}

KvBlock RandomBlock(TokenRange range) {
  KvBlock block = KvBlock::Make(SmallLayout(), range, AllLayers(SmallLayout()));
  std::mt19937 rng(5);
  for (uint16_t& x : block.data) x = static_cast<uint16_t>(rng());
  return block;
}

std::vector<uint8_t> StateOf(const KvBlock& block, TokenRange range) {
  std::vector<uint8_t> state;
  WriteLlamaState(SmallLayout(), block, range, state);
  return state;
}

TEST(LlamaStateTest, RoundTrip) {
  const KvBlock block = RandomBlock({7, 19});
  const std::vector<uint8_t> state = StateOf(block, {9, 15});
  EXPECT_EQ(state.size(), LlamaStateSize(SmallLayout(), 6));
  for (const std::vector<int>& layers : {std::vector<int>{0, 1, 2}, {1}, {0, 2}, {}}) {
    KvBlock out = KvBlock::Make(SmallLayout(), {9, 15}, layers);
    ASSERT_OK(ReadLlamaState(state, SmallLayout(), {9, 15}, out));
    ASSERT_OK_AND_ASSIGN(const KvBlock want, Slice(block, {9, 15}, layers));
    EXPECT_EQ(out.data, want.data);
  }
}

TEST(LlamaStateTest, RowsAreSortedByPosition) {
  const KvBlock block = RandomBlock({0, 5});
  // The state with its cells in the order 3 1 0 4 2.
  const int order[] = {3, 1, 0, 4, 2};
  KvBlock shuffled = KvBlock::Make(SmallLayout(), {0, 5}, AllLayers(SmallLayout()));
  for (int l = 0; l < 3; ++l) {
    for (int row = 0; row < 5; ++row) {
      std::copy_n(block.k(l) + order[row] * block.kv, block.kv, shuffled.k(l) + row * block.kv);
      std::copy_n(block.v(l) + order[row] * block.kv, block.kv, shuffled.v(l) + row * block.kv);
    }
  }
  std::vector<uint8_t> state = StateOf(shuffled, {0, 5});
  for (int row = 0; row < 5; ++row) std::memcpy(state.data() + 16 + 12 * row, &order[row], 4);
  KvBlock out = KvBlock::Make(SmallLayout(), {0, 5}, AllLayers(SmallLayout()));
  ASSERT_OK(ReadLlamaState(state, SmallLayout(), {0, 5}, out));
  EXPECT_EQ(out.data, block.data);
}

TEST(LlamaStateTest, EveryTruncationIsRefused) {
  const std::vector<uint8_t> state = StateOf(RandomBlock({0, 4}), {0, 4});
  KvBlock out = KvBlock::Make(SmallLayout(), {0, 4}, {0, 1, 2});
  for (std::size_t n = 0; n < state.size(); ++n) {
    const std::vector<uint8_t> cut(state.begin(), state.begin() + static_cast<std::ptrdiff_t>(n));
    ASSERT_THAT(ReadLlamaState(cut, SmallLayout(), {0, 4}, out), StatusIs(absl::StatusCode::kInternal)) << n;
  }
}

// Any damage is either refused or, in the rows and the sequence ids, taken as data: never read past the end
// (run with asan).
TEST(LlamaStateTest, DamageIsContained) {
  const std::vector<uint8_t> state = StateOf(RandomBlock({0, 4}), {0, 4});
  KvBlock out = KvBlock::Make(SmallLayout(), {0, 4}, {0, 1, 2});
  std::mt19937 rng(11);
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> bad = state;
    for (int i = 0; i < 3; ++i) bad[rng() % bad.size()] = static_cast<uint8_t>(rng());
    (void)ReadLlamaState(bad, SmallLayout(), {0, 4}, out);
  }
  EXPECT_EQ(out.data.size(), 3u * 2 * 4 * 8);
}

TEST(LlamaStateTest, FieldsAreChecked) {
  struct Case {
    std::size_t at;
    const char* what;
  };
  // 16 bytes of head, 4 cells of 12, 8 of body, then the first tensor's head.
  const Case cases[] = {
      {0, "magic"},    {8, "streams"}, {12, "cells"},      {16, "position"}, {20, "sequences of a cell"},
      {64, "v_trans"}, {68, "layers"}, {72, "cache type"}, {76, "row size"}};
  for (const Case& c : cases) {
    std::vector<uint8_t> state = StateOf(RandomBlock({0, 4}), {0, 4});
    state[c.at] ^= 0x40;
    KvBlock out = KvBlock::Make(SmallLayout(), {0, 4}, {0});
    EXPECT_THAT(ReadLlamaState(state, SmallLayout(), {0, 4}, out),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(c.what)));
  }
  std::vector<uint8_t> twice = StateOf(RandomBlock({0, 4}), {0, 4});
  twice[16] = 1;
  KvBlock out = KvBlock::Make(SmallLayout(), {0, 4}, {0});
  EXPECT_THAT(ReadLlamaState(twice, SmallLayout(), {0, 4}, out),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("twice")));
}

}  // namespace
}  // namespace riskkv

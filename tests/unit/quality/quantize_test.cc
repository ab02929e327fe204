#include "common/quality/quantize.h"

#include <cmath>
#include <functional>

#include "common/predictor/features.h"
#include "kernels/fp16.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using kernels::FloatToHalf;
using kernels::HalfToFloat;

KvLayout TwoHeads() {
  KvLayout layout;
  layout.n_layer = 3, layout.n_head_kv = 2, layout.head_dim = 4;
  layout.rope = {kernels::RopePairing::kHalves, 4, 1000.0f, 1.0f, {}};
  return layout;
}

KvBlock Noise(const KvLayout& layout, TokenRange range) {
  KvBlock block = KvBlock::Make(layout, range, AllLayers(layout));
  uint32_t state = 11;
  for (uint16_t& v : block.data)
    v = FloatToHalf(static_cast<float>((state = state * 1664525u + 1013904223u) >> 16) / 16384.0f - 1.7f);
  return block;
}

// Plain loops over numbers given one by one, with the formulas of the header.
std::vector<double> Oracle(const std::vector<double>& x, int bits, bool zero_point) {
  double low = x[0], high = x[0];
  for (double v : x) low = std::min(low, v), high = std::max(high, v);
  auto half = [](double v) { return static_cast<double>(HalfToFloat(FloatToHalf(static_cast<float>(v)))); };
  const double levels = zero_point ? std::pow(2, bits) - 1 : std::pow(2, bits - 1) - 1;
  const double zero = zero_point ? half(low) : 0;
  const double scale = half((zero_point ? high - zero : std::max(std::abs(low), std::abs(high))) / levels);
  std::vector<double> out;
  for (double v : x) {
    double q = scale > 0 ? std::nearbyint((v - zero) / scale) : 0;
    q = std::min(levels, std::max(zero_point ? 0 : -levels, q));
    out.push_back(zero + q * scale);
  }
  return out;
}

TEST(QuantiseGroup, AgreesWithPlainLoops) {
  for (const bool zero_point : {false, true}) {
    for (const int bits : {2, 3, 4, 8}) {
      std::vector<float> x;
      std::vector<double> gathered;
      for (int i = 0; i < 60; ++i) x.push_back(static_cast<float>(std::sin(i * 1.7) * (1 + i % 5) + 0.3));
      for (int i = 1; i < 60; i += 3) gathered.push_back(x[static_cast<std::size_t>(i)]);
      const std::vector<double> expected = Oracle(gathered, bits, zero_point);
      std::vector<float> y = x;
      QuantiseGroup({bits, zero_point}, 20, 3, y.data() + 1);
      for (int i = 0; i < 60; ++i) {
        const std::size_t at = static_cast<std::size_t>(i);
        if (i % 3 == 1)
          EXPECT_NEAR(y[at], expected[at / 3], 1e-5) << bits << " " << i;
        else
          EXPECT_EQ(y[at], x[at]) << "outside the group";
      }
    }
  }
}

TEST(QuantiseGroup, ConstantsAndZerosStay) {
  std::vector<float> zeros(8, 0.0f), ones(8, 1.0f);
  QuantiseGroup({8, false}, 8, 1, zeros.data());
  EXPECT_EQ(zeros, std::vector<float>(8, 0.0f));
  QuantiseGroup({4, true}, 8, 1, ones.data());
  EXPECT_EQ(ones, std::vector<float>(8, 1.0f));
}

TEST(QuantGroupBytes, CountsScalesAndZeroPoints) {
  EXPECT_EQ(QuantGroupBytes({8, false}, 64), 66);
  EXPECT_EQ(QuantGroupBytes({4, true}, 64), 36);
  EXPECT_EQ(QuantGroupBytes({4, true}, 32), 20);
  EXPECT_EQ(QuantGroupBytes({4, true}, 3), 6);
  // The ratios of common/README.md.
  KvLayout smol;
  smol.n_layer = 30, smol.n_head_kv = 3, smol.head_dim = 64;
  const double full = static_cast<double>(smol.bytes_per_token()) * 512;
  EXPECT_NEAR(full / static_cast<double>(Int8Bytes(smol, 512, 30)), 1.94, 0.005);
  EXPECT_NEAR(full / static_cast<double>(LowBitsBytes(smol, 512, 30, {4, 64})), 3.56, 0.005);
  EXPECT_NEAR(full / static_cast<double>(LowBitsBytes(smol, 512, 30, {4, 32})), 3.2, 0.005);
  EXPECT_NEAR(full / static_cast<double>(LowBitsBytes(smol, 512, 30, {3, 64})), 4.57, 0.005);
  EXPECT_NEAR(full / static_cast<double>(LowBitsBytes(smol, 512, 30, {2, 32})), 5.33, 0.005);
  // A channel of 70 tokens is a group of 64 and one of 6.
  EXPECT_EQ(LowBitsBytes(smol, 70, 1, {4, 64}), 192 * (36 + 7) + 70 * 3 * 36);
}

// What is outside range and layers stays bit for bit; inside each number is the oracle's.
void ExpectOnlyInside(const KvBlock& before, const KvBlock& after, TokenRange range, const std::vector<int>& layers,
                      const std::function<double(int layer, int part, int64_t token, int element)>& expected) {
  for (std::size_t l = 0; l < before.layers.size(); ++l) {
    for (int part = 0; part < 2; ++part) {
      const uint16_t* a = part == 0 ? before.k(static_cast<int>(l)) : before.v(static_cast<int>(l));
      const uint16_t* b = part == 0 ? after.k(static_cast<int>(l)) : after.v(static_cast<int>(l));
      for (int64_t t = before.range.begin; t < before.range.end; ++t) {
        for (int e = 0; e < before.kv; ++e, ++a, ++b) {
          const bool inside = t >= range.begin && t < range.end &&
                              std::find(layers.begin(), layers.end(), static_cast<int>(l)) != layers.end();
          if (!inside)
            EXPECT_EQ(*a, *b);
          else
            EXPECT_NEAR(HalfToFloat(*b), expected(static_cast<int>(l), part, t, e), 2e-3) << l << part << t << e;
        }
      }
    }
  }
}

TEST(QuantiseInt8, IsPerTokenAndHead) {
  const KvLayout layout = TwoHeads();
  const KvBlock before = Noise(layout, {0, 20});
  KvBlock after = before;
  ASSERT_OK(QuantiseInt8(layout, {3, 15}, {0, 2}, after));
  ExpectOnlyInside(before, after, {3, 15}, {0, 2}, [&](int layer, int part, int64_t t, int e) {
    const uint16_t* row = (part == 0 ? before.k(layer) : before.v(layer)) + t * layout.kv();
    std::vector<double> head;
    for (int i = 0; i < 4; ++i) head.push_back(HalfToFloat(row[e / 4 * 4 + i]));
    return Oracle(head, 8, false)[static_cast<std::size_t>(e % 4)];
  });
  EXPECT_FALSE(QuantiseInt8(layout, {3, 30}, {0}, after).ok());
}

TEST(QuantiseLowBits, KeysPerChannelBeforeRopeValuesPerToken) {
  const KvLayout layout = TwoHeads();
  const KvBlock before = Noise(layout, {0, 20});
  ASSERT_OK_AND_ASSIGN(const PreRopeBlock rows, UndoRope(layout, before));
  KvBlock after = before;
  ASSERT_OK(QuantiseLowBits(layout, {3, 17}, {1}, {4, 5}, after));
  // The expected keys: groups of 5 tokens of one channel, from token 3, then rotated again.
  PreRopeBlock wanted = rows;
  for (int c = 0; c < layout.kv(); ++c) {
    for (int64_t from = 3; from < 17; from += 5) {
      std::vector<double> group;
      for (int64_t t = from; t < std::min<int64_t>(from + 5, 17); ++t) group.push_back(rows.rows(1, 0)[t * layout.kv() + c]);
      const std::vector<double> decoded = Oracle(group, 4, true);
      for (std::size_t i = 0; i < decoded.size(); ++i)
        wanted.rows(1, 0)[(from + static_cast<int64_t>(i)) * layout.kv() + c] = static_cast<float>(decoded[i]);
    }
  }
  ASSERT_OK_AND_ASSIGN(const KvBlock keys, RedoRope(layout, wanted));
  ExpectOnlyInside(before, after, {3, 17}, {1}, [&](int layer, int part, int64_t t, int e) -> double {
    if (part == 0) return HalfToFloat(keys.k(layer)[t * layout.kv() + e]);
    std::vector<double> group;
    for (int i = e / 5 * 5; i < std::min(e / 5 * 5 + 5, layout.kv()); ++i)
      group.push_back(HalfToFloat(before.v(layer)[t * layout.kv() + i]));
    return Oracle(group, 4, true)[static_cast<std::size_t>(e % 5)];
  });
  EXPECT_FALSE(QuantiseLowBits(layout, {3, 17}, {1}, {4, 0}, after).ok());
  EXPECT_FALSE(QuantiseLowBits(layout, {3, 17}, {1}, {9, 32}, after).ok());
}

}  // namespace
}  // namespace riskkv

#include "kernels/fp16.h"

#include <cmath>
#include <random>
#include <vector>

#include "kernels/tests/check.h"

namespace riskkv::kernels::test {
namespace {

bool IsNan(uint16_t half) { return (half & 0x7fffu) > 0x7c00u; }

// The value of a half by its definition.
double Meaning(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const double mantissa = half & 1023;
  const double magnitude = exponent == 0 ? mantissa * 0x1p-24 : std::ldexp(1024.0 + mantissa, exponent - 25);
  return half & 0x8000u ? -magnitude : magnitude;
}

RISKKV_TEST(fp16_every_value_widens_to_its_meaning) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t half = static_cast<uint16_t>(i);
    const float got = HalfToFloat(half);
    if (IsNan(half)) {
      CHECK(std::isnan(got));
    } else if (!HalfIsFinite(half)) {
      CHECK(std::isinf(got) && std::signbit(got) == (half >> 15 != 0));
    } else {
      CHECK_EQ(static_cast<double>(got), Meaning(half));
      CHECK_EQ(std::signbit(got), half >> 15 != 0);
    }
  }
}

RISKKV_TEST(fp16_every_value_survives_the_round_trip) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t half = static_cast<uint16_t>(i);
    // A signalling NaN comes back quiet.
    const uint16_t want = IsNan(half) ? static_cast<uint16_t>(half | 0x200u) : half;
    CHECK_EQ(FloatToHalf(HalfToFloat(half)), want);
  }
}

// Between every two neighbours: the middle goes to the even one, one fp32 step off the middle to the nearer one.
RISKKV_TEST(fp16_rounds_to_nearest_ties_to_even) {
  for (uint32_t i = 0; i < 0x7bffu; ++i) {
    const uint16_t low = static_cast<uint16_t>(i), high = static_cast<uint16_t>(i + 1);
    const float middle = static_cast<float>((Meaning(low) + Meaning(high)) / 2);
    CHECK_EQ(FloatToHalf(middle), (low & 1u) ? high : low);
    CHECK_EQ(FloatToHalf(std::nextafterf(middle, 0.0f)), low);
    CHECK_EQ(FloatToHalf(std::nextafterf(middle, 1e9f)), high);
    CHECK_EQ(FloatToHalf(-middle), static_cast<uint16_t>(0x8000u | ((low & 1u) ? high : low)));
  }
}

RISKKV_TEST(fp16_overflow_is_infinite) {
  CHECK_EQ(FloatToHalf(65504.0f), 0x7bffu);
  CHECK_EQ(FloatToHalf(std::nextafterf(65520.0f, 0.0f)), 0x7bffu);
  CHECK_EQ(FloatToHalf(65520.0f), 0x7c00u);
  CHECK_EQ(FloatToHalf(-1e30f), 0xfc00u);
  CHECK_EQ(FloatToHalf(HUGE_VALF), 0x7c00u);
  CHECK(IsNan(FloatToHalf(std::nanf(""))));
  CHECK_EQ(FloatToHalf(0x1p-26f), 0u);
  CHECK_EQ(FloatToHalf(-0.0f), 0x8000u);
}

// Whatever path this processor takes, the arrays give the scalar functions' bits, at every length and alignment.
RISKKV_TEST(fp16_arrays_match_the_scalar_functions) {
  Note(Text("path: ", Fp16Path()));
  std::vector<uint16_t> halves(65536);
  for (uint32_t i = 0; i < 65536; ++i) halves[i] = static_cast<uint16_t>(i);
  std::vector<float> floats(65536), portable(65536);
  HalfToFloat(halves.data(), floats.data(), floats.size());
  HalfToFloatPortable(halves.data(), portable.data(), portable.size());
  for (uint32_t i = 0; i < 65536; ++i) CHECK_EQ(FloatToBits(floats[i]), FloatToBits(portable[i]));

  std::mt19937 random(7);
  std::vector<float> any(100003);
  for (float& value : any) value = BitsToFloat(random());
  std::vector<uint16_t> got(any.size()), want(any.size());
  for (std::size_t offset = 0; offset < 9; ++offset) {
    const std::size_t n = any.size() - 2 * offset;
    FloatToHalf(&any[offset], &got[offset], n);
    FloatToHalfPortable(&any[offset], &want[offset], n);
    for (std::size_t i = offset; i < offset + n; ++i) CHECK_EQ(got[i], want[i]);
  }
}

RISKKV_TEST(fp16_finite_check_finds_one_bad_element) {
  std::vector<uint16_t> row(133, 0x7bffu);
  CHECK(AllFinite(row.data(), row.size()));
  CHECK(AllFinite(row.data(), 0));
  for (const uint16_t bad : {0x7c00u, 0xfc00u, 0x7e00u, 0x7c01u}) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = bad;
      CHECK(!AllFinite(row.data(), row.size()));
      row[i] = 0;
    }
  }
}

}  // namespace
}  // namespace riskkv::kernels::test

// IEEE half precision as raw bits. The scalar functions are the definition; the array functions give the same bits,
// with F16C where the processor has it (looked up once at run time, so a baseline x86-64 binary profits too).
#ifndef RISKKV_KERNELS_FP16_H_
#define RISKKV_KERNELS_FP16_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace riskkv::kernels {

inline float BitsToFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t FloatToBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Exact. A signalling NaN comes out quiet with its payload kept, as VCVTPH2PS does.
inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1fu) return BitsToFloat(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u));
  if (exponent != 0) return BitsToFloat(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  // Zero or subnormal: an integer times 2^-24 is exact in fp32.
  return BitsToFloat(sign | FloatToBits(static_cast<float>(mantissa) * 0x1p-24f));
}

// Round to nearest, ties to even. From 65520 up the result is infinite: Rebuild refuses it.
inline uint16_t FloatToHalf(float value) {
  const uint32_t bits = FloatToBits(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14: 0.5 has the spacing of fp16 subnormals (2^-24), so the addition rounds to it.
    const uint32_t rounded = FloatToBits(BitsToFloat(magnitude) + 0.5f) - 0x3f000000u;
    return static_cast<uint16_t>(sign | rounded);
  }
  const uint32_t tie_to_even = 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((magnitude - (112u << 23) + tie_to_even) >> 13));
}

inline bool HalfIsFinite(uint16_t half) { return (half & 0x7c00u) != 0x7c00u; }

void HalfToFloat(const uint16_t* in, float* out, std::size_t n);
void FloatToHalf(const float* in, uint16_t* out, std::size_t n);

// True when no element is infinite or NaN.
bool AllFinite(const uint16_t* in, std::size_t n);

// "f16c" or "portable": what the array functions run on this processor.
const char* Fp16Path();

// The portable loops, whatever the processor: the tests compare both paths.
void HalfToFloatPortable(const uint16_t* in, float* out, std::size_t n);
void FloatToHalfPortable(const float* in, uint16_t* out, std::size_t n);

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_FP16_H_

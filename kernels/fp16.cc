#include "kernels/fp16.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(RISKKV_KERNELS_PORTABLE)
#define RISKKV_FP16_X86 1
#include <immintrin.h>
#endif

namespace riskkv::kernels {
namespace {

#ifdef RISKKV_FP16_X86

// Every processor with AVX2 has F16C, whose own name clang 14 does not know.
bool DetectF16c() { return __builtin_cpu_supports("avx2"); }

__attribute__((target("avx,f16c"))) void HalfToFloatF16c(const uint16_t* in, float* out, std::size_t n) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(half));
  }
  for (; i < n; ++i) out[i] = HalfToFloat(in[i]);
}

__attribute__((target("avx,f16c"))) void FloatToHalfF16c(const float* in, uint16_t* out, std::size_t n) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), half);
  }
  for (; i < n; ++i) out[i] = FloatToHalf(in[i]);
}

#else

bool DetectF16c() { return false; }
void HalfToFloatF16c(const uint16_t* in, float* out, std::size_t n) { HalfToFloatPortable(in, out, n); }
void FloatToHalfF16c(const float* in, uint16_t* out, std::size_t n) { FloatToHalfPortable(in, out, n); }

#endif  // RISKKV_FP16_X86

bool HasF16c() {
  static const bool has = DetectF16c();
  return has;
}

}  // namespace

void HalfToFloatPortable(const uint16_t* in, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = HalfToFloat(in[i]);
}

void FloatToHalfPortable(const float* in, uint16_t* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = FloatToHalf(in[i]);
}

void HalfToFloat(const uint16_t* in, float* out, std::size_t n) {
  HasF16c() ? HalfToFloatF16c(in, out, n) : HalfToFloatPortable(in, out, n);
}

void FloatToHalf(const float* in, uint16_t* out, std::size_t n) {
  HasF16c() ? FloatToHalfF16c(in, out, n) : FloatToHalfPortable(in, out, n);
}

bool AllFinite(const uint16_t* in, std::size_t n) {
  // No early exit: the loop vectorises, and the answer is nearly always yes.
  uint16_t bad = 0;
  for (std::size_t i = 0; i < n; ++i) bad |= static_cast<uint16_t>((in[i] & 0x7c00u) == 0x7c00u);
  return bad == 0;
}

const char* Fp16Path() { return HasF16c() ? "f16c" : "portable"; }

}  // namespace riskkv::kernels

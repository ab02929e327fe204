// One loop body, compiled twice: for the build's baseline and for AVX2 + FMA, chosen at run time. Plain functions and
// not target_clones, whose resolvers run before the sanitizers are up.
#ifndef RISKKV_KERNELS_CPU_DISPATCH_H_
#define RISKKV_KERNELS_CPU_DISPATCH_H_

#if defined(__GNUC__)
#define RISKKV_INLINE static inline __attribute__((always_inline))
#else
#define RISKKV_INLINE static inline
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(RISKKV_KERNELS_PORTABLE)
#define RISKKV_AVX2 __attribute__((target("avx2,fma")))
#else
#define RISKKV_AVX2
#endif

namespace riskkv::kernels {

inline bool HasAvx2() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(RISKKV_KERNELS_PORTABLE)
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
#else
  return false;
#endif
}

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CPU_DISPATCH_H_

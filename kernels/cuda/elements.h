// What one thread of a kernel computes, as host and device functions: the tests run the whole CUDA pipeline on the CPU
// with these and a plain product, so that only the launches and cuBLAS itself need a GPU to be seen working.
#ifndef RISKKV_KERNELS_CUDA_ELEMENTS_H_
#define RISKKV_KERNELS_CUDA_ELEMENTS_H_

#include <cstdint>

#include "kernels/fp16.h"
#include "kernels/rope.h"

#if defined(__CUDACC__)
#include <cuda_fp16.h>
#endif

namespace riskkv::kernels {

RISKKV_HD inline float WidenHalf(uint16_t half) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(half));
#else
  return HalfToFloat(half);
#endif
}

RISKKV_HD inline uint16_t NarrowToHalf(float value) {
#if defined(__CUDA_ARCH__)
  return __half_as_ushort(__float2half_rn(value));
#else
  return FloatToHalf(value);
#endif
}

struct Rotary {
  RopePairing pairing;
  int head_dim;
  int rotary_dim;           // 0 without RoPE
  const double* frequency;  // [rotary_dim / 2], RopeFrequency
};

// Anchors to X. All pointers on the device.
struct GatherArgs {
  const uint16_t* anchors;   // [anchor][K|V][n_tokens][kv]
  const int32_t* rows;       // [n_tokens]
  const int32_t* positions;  // [n_tokens]
  int n_tokens;
  int n_anchors;
  int kv;
  Rotary rope;
  uint16_t* x;  // [rows, d_in], fp16
  RISKKV_HD int d_in() const { return 2 * kv * n_anchors; }
};

// Z to targets.
struct FinishArgs {
  const float* z;  // [rows, d_out]
  const float* bias;
  const int32_t* rows;
  const int32_t* positions;
  int n_tokens;
  int n_targets;
  int kv;
  Rotary rope;
  uint16_t* targets;              // [target][K|V][n_tokens][kv]
  unsigned long long* first_bad;  // the smallest token * d_out + column that is not finite
  RISKKV_HD int d_out() const { return 2 * kv * n_targets; }
};

// Column `column` of the token's row of X. cosine and sine are those of its position.
RISKKV_HD inline uint16_t GatherElement(const GatherArgs& args, int token, int column, const float* cosine,
                                        const float* sine) {
  const int block = column / args.kv, element = column % args.kv;
  const uint16_t* row = args.anchors + PackedRow(block / 2, block % 2, token, args.n_tokens, args.kv);
  if (block % 2 == kPartValue) return row[element];
  const int dim = element % args.rope.head_dim;
  const RopeElement turn = RopeElementAt(args.rope.pairing, args.rope.rotary_dim, dim);
  if (turn.pair < 0) return row[element];
  const float own = WidenHalf(row[element]), other = WidenHalf(row[element - dim + turn.partner]);
  return NarrowToHalf(own * cosine[turn.pair] - turn.sign * other * sine[turn.pair]);
}

// The finished fp16 value of column `column` of the token's row of Z.
RISKKV_HD inline uint16_t FinishElement(const FinishArgs& args, int token, int column, const float* cosine,
                                        const float* sine) {
  const float* z = args.z + static_cast<std::size_t>(args.rows[token]) * args.d_out();
  const float own = z[column] + args.bias[column];
  const int block = column / args.kv, dim = column % args.kv % args.rope.head_dim;
  if (block % 2 == kPartValue) return NarrowToHalf(own);
  const RopeElement turn = RopeElementAt(args.rope.pairing, args.rope.rotary_dim, dim);
  if (turn.pair < 0) return NarrowToHalf(own);
  const int partner = column - dim + turn.partner;
  const float other = z[partner] + args.bias[partner];
  return NarrowToHalf(own * cosine[turn.pair] + turn.sign * other * sine[turn.pair]);
}

// Where that value goes.
RISKKV_HD inline std::size_t FinishIndex(const FinishArgs& args, int token, int column) {
  const int block = column / args.kv;
  return PackedRow(block / 2, block % 2, token, args.n_tokens, args.kv) + column % args.kv;
}

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_ELEMENTS_H_

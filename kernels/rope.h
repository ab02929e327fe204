// Rotation and index arithmetic of the rebuild, shared by the CPU backend and the CUDA kernels: what is tested on the
// CPU is what the GPU runs. Nothing here allocates, and no CUDA header is needed.
#ifndef RISKKV_KERNELS_ROPE_H_
#define RISKKV_KERNELS_ROPE_H_

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"

#if defined(__CUDACC__)
#define RISKKV_HD __host__ __device__
#else
#define RISKKV_HD
#endif

namespace riskkv::kernels {

// ---- Angles ----------------------------------------------------------------------------------------------------

// Radians per position of pair i. Double precision: llama.cpp multiplies an fp32 angle by an fp32 factor once a pair
// and drifts from this by about 3e-8 * position * (pairs so far) radians, 3e-4 at position 4,000 (README.md).
inline double RopeFrequency(const RopeParams& rope, int i) {
  const double factor = rope.freq_factors.empty() ? 1.0 : static_cast<double>(rope.freq_factors[i]);
  const double power = std::pow(static_cast<double>(rope.freq_base), -2.0 * i / rope.rotary_dim);
  return static_cast<double>(rope.freq_scale) * power / factor;
}

// position * frequency brought into [-pi, pi], where fp32 sine and cosine are accurate at any position.
RISKKV_HD inline double RopeAngle(int32_t position, double frequency) {
  constexpr double kTwoPi = 6.283185307179586476925286766559;
  const double angle = static_cast<double>(position) * frequency;
  return angle - kTwoPi * rint(angle / kTwoPi);
}

// ---- Pairs -----------------------------------------------------------------------------------------------------

// The two dimensions of a head that pair i turns, 0 <= i < rotary_dim / 2.
RISKKV_HD inline void RopePairDims(RopePairing pairing, int rotary_dim, int i, int* lo, int* hi) {
  *lo = pairing == RopePairing::kNeighbours ? 2 * i : i;
  *hi = pairing == RopePairing::kNeighbours ? 2 * i + 1 : i + rotary_dim / 2;
}

// Turns (lo, hi) by the angle: from a key before RoPE to the cached key.
RISKKV_HD inline void RopeForward(float cosine, float sine, float* lo, float* hi) {
  const float a = *lo, b = *hi;
  *lo = a * cosine - b * sine;
  *hi = a * sine + b * cosine;
}

// Turns (lo, hi) back: from the cached key to the key before RoPE.
RISKKV_HD inline void RopeInverse(float cosine, float sine, float* lo, float* hi) {
  RopeForward(cosine, -sine, lo, hi);
}

// The same rotation seen from one element, for a thread that writes one element:
// out[dim] = in[dim] * cos(pair) + sign * in[partner] * sin(pair). pair is -1 where the element passes unchanged.
struct RopeElement {
  int pair;
  int partner;
  float sign;
};

// sign is that of the forward rotation; the inverse takes its negative.
RISKKV_HD inline RopeElement RopeElementAt(RopePairing pairing, int rotary_dim, int dim) {
  if (pairing == RopePairing::kNone || dim >= rotary_dim) return {-1, dim, 0.0f};
  if (pairing == RopePairing::kNeighbours) {
    return {dim / 2, dim ^ 1, (dim & 1) ? 1.0f : -1.0f};
  }
  const int half = rotary_dim / 2;
  if (dim < half) return {dim, dim + half, -1.0f};
  return {dim - half, dim - half, 1.0f};
}

// ---- Index maps ------------------------------------------------------------------------------------------------

// Where a position lives: the tile that starts at a multiple of kTileTokens, and the row inside it.
RISKKV_HD inline int32_t TileStart(int32_t position) { return position - position % kTileTokens; }
RISKKV_HD inline int TileRow(int32_t position) { return position % kTileTokens; }

enum : int { kPartKey = 0, kPartValue = 1 };

// First column, in a row of X or Z, of part K or V of the layer-th anchor or target.
RISKKV_HD inline int FeatureColumn(int layer, int part, int kv) { return (2 * layer + part) * kv; }

// First element of a token's row in packed rows [layer][K|V][n_tokens][kv]: the staging buffers.
RISKKV_HD inline std::size_t PackedRow(int layer, int part, int token, int n_tokens, int kv) {
  return (static_cast<std::size_t>(2 * layer + part) * n_tokens + token) * kv;
}

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_ROPE_H_

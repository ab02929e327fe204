// Outer product kernels in registers: kRows rows by two vectors of columns, over a slice of kDepth of the k dimension,
// so that a panel's slice (32 KiB with AVX-512) stays in the first cache while all row blocks pass over it.
#include "kernels/cpu/gemm_x86.h"

#include <algorithm>
#include <cstddef>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(RISKKV_KERNELS_PORTABLE)
#include <immintrin.h>

namespace riskkv::kernels {
namespace {

constexpr int kDepth = 256;

// One block of Z: row 0 of the block at z, row 0 of X at x, both already at their slice; `columns` may be fewer than
// the panel has at the right edge.
struct Block {
  const float* x;
  int x_stride;
  const float* panel;
  int depth;
  float* z;
  int n;
  int columns;
  bool first;  // the first slice writes, the others add
};

// The edge of Z has no room for a whole vector: the block goes through a small buffer there.
template <int kRows, int kWide>
void StoreEdge(const Block& b, const float (*sum)[kWide]) {
  for (int r = 0; r < kRows; ++r) {
    float* z = b.z + static_cast<std::size_t>(r) * b.n;
    for (int j = 0; j < b.columns; ++j) z[j] = b.first ? sum[r][j] : z[j] + sum[r][j];
  }
}

template <int kRows>
__attribute__((target("avx512f"))) void Block512(const Block& b) {
  __m512 sum[kRows][2];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = _mm512_setzero_ps();
  const float* panel = b.panel;
  for (int p = 0; p < b.depth; ++p, panel += kAvx512Columns) {
    const __m512 left = _mm512_load_ps(panel), right = _mm512_load_ps(panel + 16);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512 x = _mm512_set1_ps(b.x[static_cast<std::size_t>(r) * b.x_stride + p]);
      sum[r][0] = _mm512_fmadd_ps(x, left, sum[r][0]);
      sum[r][1] = _mm512_fmadd_ps(x, right, sum[r][1]);
    }
  }
  if (b.columns == kAvx512Columns) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float* z = b.z + static_cast<std::size_t>(r) * b.n;
      const __m512 left = b.first ? sum[r][0] : _mm512_add_ps(_mm512_loadu_ps(z), sum[r][0]);
      const __m512 right = b.first ? sum[r][1] : _mm512_add_ps(_mm512_loadu_ps(z + 16), sum[r][1]);
      _mm512_storeu_ps(z, left);
      _mm512_storeu_ps(z + 16, right);
    }
    return;
  }
  alignas(64) float edge[kRows][kAvx512Columns];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    _mm512_store_ps(edge[r], sum[r][0]);
    _mm512_store_ps(edge[r] + 16, sum[r][1]);
  }
  StoreEdge<kRows, kAvx512Columns>(b, edge);
}

template <int kRows>
__attribute__((target("avx2,fma"))) void Block256(const Block& b) {
  __m256 sum[kRows][2];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_ps();
  const float* panel = b.panel;
  for (int p = 0; p < b.depth; ++p, panel += kAvx2Columns) {
    const __m256 left = _mm256_load_ps(panel), right = _mm256_load_ps(panel + 8);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m256 x = _mm256_broadcast_ss(b.x + static_cast<std::size_t>(r) * b.x_stride + p);
      sum[r][0] = _mm256_fmadd_ps(x, left, sum[r][0]);
      sum[r][1] = _mm256_fmadd_ps(x, right, sum[r][1]);
    }
  }
  if (b.columns == kAvx2Columns) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      float* z = b.z + static_cast<std::size_t>(r) * b.n;
      const __m256 left = b.first ? sum[r][0] : _mm256_add_ps(_mm256_loadu_ps(z), sum[r][0]);
      const __m256 right = b.first ? sum[r][1] : _mm256_add_ps(_mm256_loadu_ps(z + 8), sum[r][1]);
      _mm256_storeu_ps(z, left);
      _mm256_storeu_ps(z + 8, right);
    }
    return;
  }
  alignas(32) float edge[kRows][kAvx2Columns];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    _mm256_store_ps(edge[r], sum[r][0]);
    _mm256_store_ps(edge[r] + 8, sum[r][1]);
  }
  StoreEdge<kRows, kAvx2Columns>(b, edge);
}

// Row blocks are cut at fixed places of the tile, so a row always meets the same kernel.
template <int kRows, int kColumns, void (*kBlock)(const Block&), void (*kLastBlock)(const Block&)>
void Gemm(const PackedB& b, const float* x, const TileRows& rows, float* z) {
  bool used[(kTileTokens + kRows - 1) / kRows] = {};
  for (int row = 0; row < kTileTokens; ++row) used[row / kRows] |= rows[row];
  const int stride = XStride(b.k);
  for (int p = 0; p < b.k; p += kDepth) {
    const int depth = std::min(kDepth, b.k - p);
    for (int j = 0; j < b.n; j += kColumns) {
      const float* panel = b.data.data() + static_cast<std::size_t>(j) * b.k + static_cast<std::size_t>(p) * kColumns;
      for (int row = 0; row < kTileTokens; row += kRows) {
        if (!used[row / kRows]) continue;
        const Block block{x + static_cast<std::size_t>(row) * stride + p, stride, panel, depth,
                          z + static_cast<std::size_t>(row) * b.n + j,    b.n,    std::min(kColumns, b.n - j), p == 0};
        row + kRows <= kTileTokens ? kBlock(block) : kLastBlock(block);
      }
    }
  }
}

}  // namespace

// 8 x 2 sums, 2 columns and a broadcast in 32 registers; 6 x 2, 2 and one in 16.
constexpr int kRows512 = 8, kRows256 = 6;

bool HasAvx512Gemm() { return __builtin_cpu_supports("avx512f") != 0; }
bool HasAvx2Gemm() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

void GemmAvx512(const PackedB& b, const float* x, const TileRows& rows, float* z) {
  static_assert(kTileTokens % kRows512 == 0, "no last block");
  Gemm<kRows512, kAvx512Columns, Block512<kRows512>, Block512<kRows512>>(b, x, rows, z);
}

void GemmAvx2(const PackedB& b, const float* x, const TileRows& rows, float* z) {
  Gemm<kRows256, kAvx2Columns, Block256<kRows256>, Block256<kTileTokens % kRows256>>(b, x, rows, z);
}

}  // namespace riskkv::kernels

#else

namespace riskkv::kernels {

bool HasAvx512Gemm() { return false; }
bool HasAvx2Gemm() { return false; }
void GemmAvx512(const PackedB&, const float*, const TileRows&, float*) {}
void GemmAvx2(const PackedB&, const float*, const TileRows&, float*) {}

}  // namespace riskkv::kernels

#endif

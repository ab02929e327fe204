// The matrix product of a tile, Z[kTileTokens, n] = X[kTileTokens, k] B[k, n], in fp32 on the calling thread.
//
// Own kernels where the processor has AVX2: B is packed once, at upload, where a BLAS packs it on every call; rows that
// hold no token are skipped; and Debian 12's OpenBLAS (0.3.21) takes processors newer than itself for a Prescott and
// runs eight times slower (README.md). Elsewhere OpenBLAS, when it is compiled in, or plain loops.
#ifndef RISKKV_KERNELS_CPU_GEMM_H_
#define RISKKV_KERNELS_CPU_GEMM_H_

#include <bitset>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/aligned_buffer.h"

namespace riskkv::kernels {

enum class GemmKind { kAvx512, kAvx2, kBlas, kPlain };

// What this processor and this build can run, best first. Never empty.
std::vector<GemmKind> AvailableGemms();

// "AVX-512 kernels", "OpenBLAS SkylakeX", ...
std::string GemmName(GemmKind kind);

// B as its kernel wants it. kAvx512 and kAvx2: panels of 32 or 16 columns, [panel][k][columns], the last one filled up
// with zeros. The others: as it came.
struct PackedB {
  GemmKind kind = GemmKind::kPlain;
  int k = 0;
  int n = 0;
  AlignedBuffer data;
};

// Throws std::bad_alloc.
PackedB PackB(GemmKind kind, const float* b, int k, int n);

// Which rows of the tile hold a token.
using TileRows = std::bitset<kTileTokens>;

// Floats from one row of X to the next, at least k: a step that is no multiple of a page keeps the rows of a block out
// of each other's cache sets.
inline int XStride(int k) { return (k + 15) / 16 * 16 + 16; }

// Z's rows are n apart. Rows not in `rows` come out unspecified; X must be zero there or finite, their results are not
// used. What a row gets depends on its place in the tile and its X alone: same bits, whatever the other rows.
void GemmTile(const PackedB& b, const float* x, const TileRows& rows, float* z);

// When OpenBLAS is compiled in and has mistaken this processor for an old one: the name of a core to set in
// OPENBLAS_CORETYPE before the program starts (the library reads it as it is loaded), else empty.
std::string BetterBlasCore();

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CPU_GEMM_H_

#include "kernels/cpu/sgemm.h"

#include <algorithm>

#include "kernels/backend.h"
#include "kernels/cpu/dispatch.h"

#ifdef RISKKV_KERNELS_OPENBLAS
#include <cblas.h>
#endif

namespace riskkv::kernels {
namespace {

constexpr int kRows = 4;
constexpr int kColumns = 64;
static_assert(kTileTokens % kRows == 0, "the row blocks must cover the tile");

// A block of kRows x columns accumulators stays in registers or L1 while B streams past once per row block.
RISKKV_INLINE void PlainBlock(const float* __restrict x, const float* __restrict b, float* __restrict z, int n, int k,
                              int columns) {
  float sum[kRows][kColumns] = {};
  for (int p = 0; p < k; ++p) {
    const float* row = b + static_cast<std::size_t>(p) * n;
    for (int r = 0; r < kRows; ++r) {
      const float a = x[static_cast<std::size_t>(r) * k + p];
      for (int j = 0; j < columns; ++j) sum[r][j] += a * row[j];
    }
  }
  for (int r = 0; r < kRows; ++r) std::copy(sum[r], sum[r] + columns, z + static_cast<std::size_t>(r) * n);
}

RISKKV_INLINE void PlainBody(const float* x, const float* b, float* z, int n, int k) {
  for (int j = 0; j < n; j += kColumns) {
    const int columns = std::min(kColumns, n - j);
    for (int r = 0; r < kTileTokens; r += kRows) {
      const float* xr = x + static_cast<std::size_t>(r) * k;
      float* zr = z + static_cast<std::size_t>(r) * n + j;
      // The constant lets the compiler unroll the usual case.
      if (columns == kColumns) {
        PlainBlock(xr, b + j, zr, n, k, kColumns);
      } else {
        PlainBlock(xr, b + j, zr, n, k, columns);
      }
    }
  }
}

RISKKV_AVX2 void PlainAvx2(const float* x, const float* b, float* z, int n, int k) { PlainBody(x, b, z, n, k); }
void PlainBase(const float* x, const float* b, float* z, int n, int k) { PlainBody(x, b, z, n, k); }

}  // namespace

void GemmTilePlain(const float* x, const float* b, float* z, int n, int k) {
  HasAvx2() ? PlainAvx2(x, b, z, n, k) : PlainBase(x, b, z, n, k);
}

#ifdef RISKKV_KERNELS_OPENBLAS

void GemmTile(const float* x, const float* b, float* z, int n, int k) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kTileTokens, n, k, 1.0f, x, k, b, n, 0.0f, z, n);
}

void HoldBlasToOneThread() {
  if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
}

std::string GemmName() { return std::string("OpenBLAS ") + openblas_get_corename(); }

#else

void GemmTile(const float* x, const float* b, float* z, int n, int k) { GemmTilePlain(x, b, z, n, k); }
void HoldBlasToOneThread() {}
std::string GemmName() { return "plain loops"; }

#endif  // RISKKV_KERNELS_OPENBLAS

}  // namespace riskkv::kernels

#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/cpu/gemm_x86.h"

#ifdef RISKKV_KERNELS_OPENBLAS
#include <cblas.h>
#endif

namespace riskkv::kernels {
namespace {

void GemmPlain(const PackedB& b, const float* x, const TileRows& rows, float* z) {
  for (int row = 0; row < kTileTokens; ++row) {
    if (!rows[row]) continue;
    const float* __restrict xr = x + static_cast<std::size_t>(row) * XStride(b.k);
    float* __restrict zr = z + static_cast<std::size_t>(row) * b.n;
    std::fill_n(zr, b.n, 0.0f);
    for (int p = 0; p < b.k; ++p) {
      const float* __restrict br = b.data.data() + static_cast<std::size_t>(p) * b.n;
      for (int j = 0; j < b.n; ++j) zr[j] += xr[p] * br[j];
    }
  }
}

#ifdef RISKKV_KERNELS_OPENBLAS

constexpr bool kHasBlas = true;

// Always the whole tile, so that the library's blocking does not depend on the rows. One thread a call, for the same
// reason and because the backend's own threads are the bound. The setting is the process's: code elsewhere that wants
// more sets it around its own calls.
void GemmBlas(const PackedB& b, const float* x, float* z) {
  if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kTileTokens, b.n, b.k, 1.0f, x, XStride(b.k), b.data.data(),
              b.n, 0.0f, z, b.n);
}

std::string BlasCore() { return openblas_get_corename(); }

#else

constexpr bool kHasBlas = false;
void GemmBlas(const PackedB&, const float*, float*) {}
std::string BlasCore() { return ""; }

#endif  // RISKKV_KERNELS_OPENBLAS

int PanelColumns(GemmKind kind) {
  if (kind == GemmKind::kAvx512) return kAvx512Columns;
  if (kind == GemmKind::kAvx2) return kAvx2Columns;
  return 0;
}

}  // namespace

std::vector<GemmKind> AvailableGemms() {
  std::vector<GemmKind> kinds;
  if (HasAvx512Gemm()) kinds.push_back(GemmKind::kAvx512);
  if (HasAvx2Gemm()) kinds.push_back(GemmKind::kAvx2);
  if (kHasBlas) kinds.push_back(GemmKind::kBlas);
  kinds.push_back(GemmKind::kPlain);
  return kinds;
}

std::string GemmName(GemmKind kind) {
  switch (kind) {
    case GemmKind::kAvx512:
      return "AVX-512 kernels";
    case GemmKind::kAvx2:
      return "AVX2 kernels";
    case GemmKind::kBlas:
      return "OpenBLAS " + BlasCore();
    case GemmKind::kPlain:
      break;
  }
  return "plain loops";
}

PackedB PackB(GemmKind kind, const float* b, int k, int n) {
  PackedB packed;
  packed.kind = kind;
  packed.k = k;
  packed.n = n;
  const int columns = PanelColumns(kind);
  if (columns == 0) {
    packed.data.Reserve(static_cast<std::size_t>(k) * n);
    std::memcpy(packed.data.data(), b, static_cast<std::size_t>(k) * n * sizeof(float));
    return packed;
  }
  const int panels = (n + columns - 1) / columns;
  packed.data.Reserve(static_cast<std::size_t>(panels) * columns * k);
  float* out = packed.data.data();
  for (int j = 0; j < n; j += columns) {
    const int used = std::min(columns, n - j);
    for (int p = 0; p < k; ++p, out += columns) {
      std::copy_n(b + static_cast<std::size_t>(p) * n + j, used, out);
      std::fill(out + used, out + columns, 0.0f);
    }
  }
  return packed;
}

void GemmTile(const PackedB& b, const float* x, const TileRows& rows, float* z) {
  switch (b.kind) {
    case GemmKind::kAvx512:
      return GemmAvx512(b, x, rows, z);
    case GemmKind::kAvx2:
      return GemmAvx2(b, x, rows, z);
    case GemmKind::kBlas:
      return GemmBlas(b, x, z);
    case GemmKind::kPlain:
      return GemmPlain(b, x, rows, z);
  }
}

std::string BetterBlasCore() {
  const std::string core = BlasCore();
  const bool old = core == "Prescott" || core == "Core2" || core == "Nehalem" || core == "Sandybridge";
  if (!old || !HasAvx2Gemm()) return "";
  return HasAvx512Gemm() ? "SkylakeX" : "Haswell";
}

}  // namespace riskkv::kernels

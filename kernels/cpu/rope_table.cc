#include "kernels/cpu/rope_table.h"

#include <cmath>
#include <cstddef>

#include "kernels/cpu/dispatch.h"
#include "kernels/rope.h"

namespace riskkv::kernels {
namespace {

RISKKV_INLINE void RowBody(const double* __restrict start, const double* __restrict row, int half,
                           float* __restrict cosine, float* __restrict sine) {
  for (int i = 0; i < half; ++i) {
    cosine[i] = static_cast<float>(start[i] * row[i] - start[half + i] * row[half + i]);
    sine[i] = static_cast<float>(start[half + i] * row[i] + start[i] * row[half + i]);
  }
}

RISKKV_AVX2 void RowAvx2(const double* start, const double* row, int half, float* cosine, float* sine) {
  RowBody(start, row, half, cosine, sine);
}

void RowBase(const double* start, const double* row, int half, float* cosine, float* sine) {
  RowBody(start, row, half, cosine, sine);
}

}  // namespace

RopeTable::RopeTable(const RopeParams& rope) {
  if (rope.pairing == RopePairing::kNone) return;
  for (int i = 0; i < rope.rotary_dim / 2; ++i) frequency_.push_back(RopeFrequency(rope, i));
  rows_.resize(static_cast<std::size_t>(kTileTokens) * 2 * half());
  for (int row = 0; row < kTileTokens; ++row) Start(row, rows_.data() + static_cast<std::size_t>(row) * 2 * half());
}

void RopeTable::Start(int32_t tile_start, double* start) const {
  for (int i = 0; i < half(); ++i) {
    const double angle = RopeAngle(tile_start, frequency_[i]);
    start[i] = std::cos(angle);
    start[half() + i] = std::sin(angle);
  }
}

void RopeTable::Row(const double* start, int row, float* cosine, float* sine) const {
  const double* base = rows_.data() + static_cast<std::size_t>(row) * 2 * half();
  HasAvx2() ? RowAvx2(start, base, half(), cosine, sine) : RowBase(start, base, half(), cosine, sine);
}

}  // namespace riskkv::kernels

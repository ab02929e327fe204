// Cosines and sines of a set's angles, for whole tiles, in constant memory.
#ifndef RISKKV_KERNELS_CPU_ROPE_TABLE_H_
#define RISKKV_KERNELS_CPU_ROPE_TABLE_H_

#include <cstdint>
#include <vector>

#include "kernels/backend.h"

namespace riskkv::kernels {

// A position is a tile's start plus a row, and cos(a + b) = cos a cos b - sin a sin b. So one table of kTileTokens rows
// in double precision serves every position: a tile costs half a row of library calls and, per row, two products an
// entry. That is cheaper than a cache of tables by position and never grows. Immutable: any number of threads.
class RopeTable {
 public:
  explicit RopeTable(const RopeParams& rope);

  // Entries in a row: rotary_dim / 2, or 0 without RoPE.
  int half() const { return static_cast<int>(frequency_.size()); }

  // The start of a tile, 2 * half() doubles: cosines, then sines.
  void Start(int32_t tile_start, double* start) const;

  // cos and sin for `row` of the tile that `start` came from, half() floats each.
  void Row(const double* start, int row, float* cosine, float* sine) const;

 private:
  std::vector<double> frequency_;
  std::vector<double> rows_;  // [kTileTokens][2][half]
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CPU_ROPE_TABLE_H_

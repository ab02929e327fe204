// What one thread of a codec kernel computes, as host and device functions, like elements.h. Pointers: the device's.
#ifndef RISKKV_KERNELS_CUDA_CODEC_ARGS_H_
#define RISKKV_KERNELS_CUDA_CODEC_ARGS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/codec_elements.h"
#include "kernels/cuda/elements.h"
#include "kernels/rope.h"

namespace riskkv::kernels {

// One unit of a block: its planes' cells, and where its tokens are in the tile.
struct UnitRows {
  int32_t first;          // position of the first token
  int n_tokens;
  int kv;
  int n_planes;
  const int32_t* planes;  // [n_planes], 2 * layer + part
  const float* mean;      // [2 * n_layer, kv]
  const float* scale;     // [2 * n_layer]
  Rotary rope;            // none where the unit has no keys
  RISKKV_HD int width() const { return n_planes * kv; }
  RISKKV_HD int32_t position(int token) const { return first + token; }
  // First element of the token's row of [kTileTokens, width].
  RISKKV_HD std::size_t row(int token) const { return static_cast<std::size_t>(TileRow(first + token)) * width(); }
  RISKKV_HD float mean_at(int column) const {
    return mean[static_cast<std::size_t>(planes[column / kv]) * kv + column % kv];
  }
  // A column's element of the cells.
  RISKKV_HD std::size_t cell(int token, int column) const {
    const int32_t plane = planes[column / kv];
    return PackedRow(plane / 2, plane % 2, token, n_tokens, kv) + column % kv;
  }
};

struct CentreArgs {
  UnitRows unit;
  const uint16_t* cells;
  float* x;  // [kTileTokens, width]
};

// Levels [width, n_tokens] and z from y and p, or z from levels and p. p is null where it is zero.
struct LevelArgs {
  int32_t first;
  int n_tokens;
  int width;
  float step;
  LevelRule rule;
  const float* y;
  const float* p;
  int32_t* levels;
  float* z;
  RISKKV_HD std::size_t at(int token, int column) const {
    return static_cast<std::size_t>(TileRow(first + token)) * width + column;
  }
  RISKKV_HD std::size_t level(int token, int column) const {
    return static_cast<std::size_t>(column) * n_tokens + token;
  }
};

struct RestoreArgs {
  UnitRows unit;
  const float* x;  // [kTileTokens, width], z turned back
  uint16_t* cells;
  int index;                      // the unit's
  unsigned long long* first_bad;  // smallest BadCell that is not finite
};

// A cell's place in one number: units first, then tokens.
RISKKV_HD inline unsigned long long BadCell(int unit, int token, int column) {
  return (static_cast<unsigned long long>(unit) * kTileTokens + token) << 32 | static_cast<unsigned>(column);
}

// cosine and sine are those of the token's position.
RISKKV_HD inline float CentreElementAt(const CentreArgs& args, int token, int column, const float* cosine,
                                       const float* sine) {
  const UnitRows& unit = args.unit;
  const int32_t plane = unit.planes[column / unit.kv];
  const uint16_t* cell = args.cells + unit.cell(token, column);
  float x = WidenHalf(*cell);
  if (plane % 2 == kPartKey) {
    const int dim = column % unit.kv % unit.rope.head_dim;
    const RopeElement turn = RopeElementAt(unit.rope.pairing, unit.rope.rotary_dim, dim);
    if (turn.pair >= 0) x = x * cosine[turn.pair] - turn.sign * WidenHalf(cell[turn.partner - dim]) * sine[turn.pair];
  }
  return Centred(x, unit.mean_at(column), 1.0f / unit.scale[plane]);
}

RISKKV_HD inline void QuantiseElementAt(const LevelArgs& args, int token, int column) {
  const std::size_t at = args.at(token, column);
  const float p = args.p == nullptr ? 0.0f : args.p[at];
  const int32_t level = LevelOf((args.y[at] - p) * (1.0f / args.step), args.rule);
  args.levels[args.level(token, column)] = level;
  args.z[at] = Decoded(p, args.step, level);
}

RISKKV_HD inline void DequantiseElementAt(const LevelArgs& args, int token, int column) {
  const std::size_t at = args.at(token, column);
  const float p = args.p == nullptr ? 0.0f : args.p[at];
  args.z[at] = Decoded(p, args.step, args.levels[args.level(token, column)]);
}

RISKKV_HD inline uint16_t RestoreElementAt(const RestoreArgs& args, int token, int column, const float* cosine,
                                           const float* sine) {
  const UnitRows& unit = args.unit;
  const int32_t plane = unit.planes[column / unit.kv];
  const float* row = args.x + unit.row(token);
  const float own = Restored(row[column], unit.mean_at(column), unit.scale[plane]);
  if (plane % 2 != kPartKey) return NarrowToHalf(own);
  const int dim = column % unit.kv % unit.rope.head_dim;
  const RopeElement turn = RopeElementAt(unit.rope.pairing, unit.rope.rotary_dim, dim);
  if (turn.pair < 0) return NarrowToHalf(own);
  const int partner = column - dim + turn.partner;
  const float other = Restored(row[partner], unit.mean_at(partner), unit.scale[plane]);
  return NarrowToHalf(own * cosine[turn.pair] + turn.sign * other * sine[turn.pair]);
}

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_CODEC_ARGS_H_

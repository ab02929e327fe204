// The transform of one block, unit by unit: only for block_codec.cc and block_codec_pass.cc.
#ifndef RISKKV_COMMON_CODEC_BLOCK_CODEC_INTERNAL_H_
#define RISKKV_COMMON_CODEC_BLOCK_CODEC_INTERNAL_H_

#include <vector>

#include "common/codec/block_codec.h"
#include "common/predictor/features.h"
#include "kernels/cpu/gemm.h"

namespace riskkv {

struct BlockCodec::PackedUnit {
  int width = 0, from = 0;
  kernels::PackedB rotation, back, predictor;
};

// Rows of a tile of the products, a token's at position % 128: its sums are then always the same, whatever block
// it came in. Rows without a token are stale but finite.
struct CodecScratch::Buffers {
  std::vector<std::vector<float>> z;  // by unit, [128, XStride(width)]: decoded, in rotated coordinates
  std::vector<float> in;              // [128, XStride(widest input)]
  std::vector<float> prediction;      // [128, width]
  std::vector<float> product;         // [128, width]
  std::vector<int32_t> q;             // [tokens, width]
};

class BlockCodec::Pass {
 public:
  Pass(const BlockCodec& codec, TokenRange range, CodecScratch::Buffers& buffers);

  // P of unit u from the z of its conditions; zero without any.
  void Predict(std::size_t u);
  // y of unit u from rows before RoPE.
  void Rotate(std::size_t u, const PreRopeBlock& rows);
  // q [width, tokens] and z of unit u from its y and P. A level too large to code comes out as one.
  std::vector<int32_t> Quantise(std::size_t u, float step);
  // z of unit u from its q (empty: omitted) and P.
  void Dequantise(std::size_t u, float step, const std::vector<int32_t>& q);
  // The products of unit u, whatever is in the buffers.
  void Multiply(std::size_t u);
  // The unit's planes from its z.
  void RotateBack(std::size_t u, PreRopeBlock& rows);

 private:
  int RowOf(int64_t token) const {
    return static_cast<int>((range_.begin + token) % kCodedBlockTokens);
  }
  float* Z(std::size_t u, int row);

  const BlockCodec& codec_;
  const TokenRange range_;
  CodecScratch::Buffers& b_;
  kernels::TileRows rows_;
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_BLOCK_CODEC_INTERNAL_H_

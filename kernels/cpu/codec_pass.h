// The transforms of one block on the CPU, unit by unit: only for cpu_codec.cc.
#ifndef RISKKV_KERNELS_CPU_CODEC_PASS_H_
#define RISKKV_KERNELS_CPU_CODEC_PASS_H_

#include <cstdint>
#include <vector>

#include "kernels/codec_plan.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/rope_table.h"

namespace riskkv::kernels {

// An uploaded codec. Immutable.
struct CpuCodec {
  explicit CpuCodec(const RopeParams& params) : rope(params) {}
  struct Unit {
    PackedB rotation, back, predictor;
  };
  CodecShape shape;
  RopeTable rope;
  std::vector<float> mean, scale;  // as CodecView's
  std::vector<Unit> units;
};

// Buffers of one call; they grow to the largest codec they were used with. Rows of the tile's products, a token's at
// position % kTileTokens: its sums are then always the same, whatever block it came in. Rows without a token are stale
// but numbers: vectors start with zeros.
struct CodecWorkspace {
  std::vector<std::vector<float>> z;  // by unit, [rows, XStride(width)]: decoded, in rotated coordinates
  std::vector<float> in;              // [rows, XStride(widest input)]
  std::vector<float> prediction;      // [rows, width]
  std::vector<float> product;         // [rows, width]
  std::vector<float> trig;            // [rows][cos|sin][half]
  std::vector<double> trig_start;     // [cos|sin][half]
  std::vector<int32_t> levels;        // [tokens, width]

  void Reserve(const CpuCodec& codec);
};

class CodecPass {
 public:
  // All checked, and the workspace reserved for the codec.
  CodecPass(const CpuCodec& codec, const CodecBlock& block, CodecWorkspace* work);

  // Fills z of unit u: from its cells, and its levels where it is coded.
  void Quantise(int u, const uint16_t* cells, int32_t* levels);
  // The same from levels; the cells of an exact unit are read, those of the others written.
  Status Reconstruct(int u, const int32_t* levels, uint16_t* cells);
  // The products of unit u, whatever is in the buffers.
  void Multiply(int u);

 private:
  int RowOf(int token) const { return TileRow(static_cast<int32_t>(block_.first) + token); }
  float* Z(int u, int row) const;
  float* Cosine(int row) const;
  void FillTrig();
  void Predict(int u);                           // P
  void Rotate(int u, const uint16_t* cells);     // y
  void TakeExact(int u);                         // z = y
  void TakePrediction(int u);                    // z = P
  void Dequantise(int u, const int32_t* levels);
  Status Restore(int u, uint16_t* cells);

  const CpuCodec& codec_;
  const CodecShape& shape_;
  const CodecBlock& block_;
  CodecWorkspace& work_;
  TileRows rows_;
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CPU_CODEC_PASS_H_

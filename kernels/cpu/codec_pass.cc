#include "kernels/cpu/codec_pass.h"

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/codec_rows.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/fp16.h"
#include "kernels/rope.h"

namespace riskkv::kernels {
namespace {

constexpr std::size_t kRows = kTileTokens;

template <typename T>
void Grow(std::vector<T>* v, std::size_t n) {
  if (v->size() < n) v->resize(n);
}

}  // namespace

void CodecWorkspace::Reserve(const CpuCodec& codec) {
  const CodecShape& shape = codec.shape;
  const std::size_t widest = static_cast<std::size_t>(shape.widest()), half = codec.rope.half();
  Grow(&z, shape.units.size());
  for (std::size_t u = 0; u < shape.units.size(); ++u) Grow(&z[u], kRows * XStride(shape.units[u].width));
  Grow(&in, kRows * XStride(std::max(shape.widest(), shape.widest_from())));
  Grow(&prediction, kRows * widest);
  Grow(&product, kRows * widest);
  Grow(&trig, kRows * 2 * half);
  Grow(&trig_start, 2 * half);
  Grow(&levels, kRows * widest);
}

CodecPass::CodecPass(const CpuCodec& codec, const CodecBlock& block, CodecWorkspace* work)
    : codec_(codec), shape_(codec.shape), block_(block), work_(*work) {
  for (int t = 0; t < block.n_tokens; ++t) rows_.set(RowOf(t));
  if (codec.rope.half() > 0) FillTrig();
}

float* CodecPass::Z(int u, int row) const {
  return work_.z[u].data() + static_cast<std::size_t>(row) * XStride(shape_.units[u].width);
}

float* CodecPass::Cosine(int row) const {
  return work_.trig.data() + static_cast<std::size_t>(row) * 2 * codec_.rope.half();
}

void CodecPass::FillTrig() {
  for (int t = 0; t < block_.n_tokens; ++t) {
    const int row = RowOf(t);
    const int32_t position = static_cast<int32_t>(block_.first) + t;
    if (t == 0 || row == 0) codec_.rope.Start(TileStart(position), work_.trig_start.data());
    codec_.rope.Row(work_.trig_start.data(), row, Cosine(row), Cosine(row) + codec_.rope.half());
  }
}

void CodecPass::Predict(int u) {
  const UnitShape& unit = shape_.units[u];
  if (unit.from == 0) {
    std::fill_n(work_.prediction.data(), kRows * unit.width, 0.0f);
    return;
  }
  const std::size_t stride = XStride(unit.from);
  for (int t = 0; t < block_.n_tokens; ++t) {
    const int row = RowOf(t);
    float* out = work_.in.data() + row * stride;
    for (int c : unit.conditions) out = std::copy_n(Z(c, row), shape_.units[c].width, out);
  }
  GemmTile(codec_.units[u].predictor, work_.in.data(), rows_, work_.prediction.data());
}

void CodecPass::Rotate(int u, const uint16_t* cells) {
  const UnitShape& unit = shape_.units[u];
  const int kv = shape_.heads.kv, half = codec_.rope.half();
  const std::size_t stride = XStride(unit.width);
  for (std::size_t i = 0; i < unit.planes.size(); ++i) {
    const CodecPlane plane = unit.planes[i];
    const float* mean = codec_.mean.data() + PlaneIndex(plane) * kv;
    const float inverse = 1.0f / codec_.scale[PlaneIndex(plane)];
    for (int t = 0; t < block_.n_tokens; ++t) {
      const int row = RowOf(t);
      float* x = work_.in.data() + row * stride + i * kv;
      HalfToFloat(cells + CellRow(plane, t, block_.n_tokens, kv), x, kv);
      if (plane.part == kPartKey) RotateRow(shape_.heads, Turn::kInverse, Cosine(row), Cosine(row) + half, x);
      CentreRow(mean, inverse, kv, x);
    }
  }
  GemmTile(codec_.units[u].rotation, work_.in.data(), rows_, work_.product.data());
}

void CodecPass::TakeExact(int u) {
  const int width = shape_.units[u].width;
  for (int t = 0; t < block_.n_tokens; ++t) {
    const std::size_t row = RowOf(t);
    std::copy_n(work_.product.data() + row * width, width, Z(u, static_cast<int>(row)));
  }
}

void CodecPass::TakePrediction(int u) {
  const int width = shape_.units[u].width;
  for (int t = 0; t < block_.n_tokens; ++t) {
    const std::size_t row = RowOf(t);
    std::copy_n(work_.prediction.data() + row * width, width, Z(u, static_cast<int>(row)));
  }
}

void CodecPass::Quantise(int u, const uint16_t* cells, int32_t* levels) {
  const UnitCoding coding = CodingOf(block_.steps[u]);
  if (coding != UnitCoding::kExact) Predict(u);
  if (coding == UnitCoding::kOmitted) return TakePrediction(u);
  Rotate(u, cells);
  if (coding == UnitCoding::kExact) return TakeExact(u);
  const int width = shape_.units[u].width;
  for (int t = 0; t < block_.n_tokens; ++t) {
    const std::size_t row = RowOf(t);
    QuantiseRow(work_.product.data() + row * width, work_.prediction.data() + row * width, block_.steps[u],
                shape_.rule, width, work_.levels.data() + static_cast<std::size_t>(t) * width,
                Z(u, static_cast<int>(row)));
  }
  TransposeLevels(work_.levels.data(), block_.n_tokens, width, levels);
}

void CodecPass::Dequantise(int u, const int32_t* levels) {
  const int width = shape_.units[u].width;
  TransposeLevels(levels, width, block_.n_tokens, work_.levels.data());
  for (int t = 0; t < block_.n_tokens; ++t) {
    const std::size_t row = RowOf(t);
    DequantiseRow(work_.levels.data() + static_cast<std::size_t>(t) * width, work_.prediction.data() + row * width,
                  block_.steps[u], width, Z(u, static_cast<int>(row)));
  }
}

Status CodecPass::Reconstruct(int u, const int32_t* levels, uint16_t* cells) {
  const UnitCoding coding = CodingOf(block_.steps[u]);
  if (coding == UnitCoding::kExact) {
    Rotate(u, cells);
    TakeExact(u);
    return Status();
  }
  Predict(u);
  coding == UnitCoding::kCoded ? Dequantise(u, levels) : TakePrediction(u);
  return Restore(u, cells);
}

Status CodecPass::Restore(int u, uint16_t* cells) {
  const UnitShape& unit = shape_.units[u];
  const int kv = shape_.heads.kv, half = codec_.rope.half();
  GemmTile(codec_.units[u].back, work_.z[u].data(), rows_, work_.product.data());
  for (std::size_t i = 0; i < unit.planes.size(); ++i) {
    const CodecPlane plane = unit.planes[i];
    const float* mean = codec_.mean.data() + PlaneIndex(plane) * kv;
    for (int t = 0; t < block_.n_tokens; ++t) {
      const int row = RowOf(t);
      float* x = work_.product.data() + static_cast<std::size_t>(row) * unit.width + i * kv;
      RestoreRow(mean, codec_.scale[PlaneIndex(plane)], kv, x);
      if (plane.part == kPartKey) RotateRow(shape_.heads, Turn::kForward, Cosine(row), Cosine(row) + half, x);
      uint16_t* out = cells + CellRow(plane, t, block_.n_tokens, kv);
      FloatToHalf(x, out, kv);
      if (AllFinite(out, kv)) continue;
      const int bad = static_cast<int>(std::find_if_not(out, out + kv, HalfIsFinite) - out);
      return CellOverflowError(shape_, u, static_cast<int>(i) * kv + bad, block_.first + t);
    }
  }
  return Status();
}

void CodecPass::Multiply(int u) {
  if (shape_.units[u].from > 0)
    GemmTile(codec_.units[u].predictor, work_.in.data(), rows_, work_.prediction.data());
  GemmTile(codec_.units[u].back, work_.z[u].data(), rows_, work_.product.data());
}

}  // namespace riskkv::kernels

#include <algorithm>
#include <cmath>

#include "common/codec/block_codec_internal.h"

namespace riskkv {
namespace {

using kernels::XStride;

constexpr std::size_t kTileRows = kernels::kTileTokens;
constexpr int kTransposeBlock = 16;

// out [columns, rows] from in [rows, columns], by blocks that stay in the nearest cache.
void Transpose(const int32_t* in, int rows, int columns, int32_t* out) {
  for (int i0 = 0; i0 < rows; i0 += kTransposeBlock) {
    const int i1 = std::min(rows, i0 + kTransposeBlock);
    for (int j0 = 0; j0 < columns; j0 += kTransposeBlock) {
      const int j1 = std::min(columns, j0 + kTransposeBlock);
      for (int j = j0; j < j1; ++j) {
        for (int i = i0; i < i1; ++i)
          out[static_cast<std::size_t>(j) * rows + i] = in[static_cast<std::size_t>(i) * columns + j];
      }
    }
  }
}

// sign(r) floor(|r| / step + 1 - dead zone), and z = p + step q. Levels stop just beyond what can be coded.
void QuantiseRow(const float* y, const float* p, float step, int n, int32_t* q, float* z) {
  const float inverse = 1.0f / step;
  constexpr float kStop = static_cast<float>(kLargestLevel) + 1.0f;
  for (int j = 0; j < n; ++j) {
    const float r = (y[j] - p[j]) * inverse;
    const float level = std::min(std::fabs(r) + (1.0f - kDeadZone), kStop);
    const int32_t magnitude = static_cast<int32_t>(level);
    const int32_t signed_level = r < 0 ? -magnitude : magnitude;
    q[j] = signed_level;
    z[j] = p[j] + step * static_cast<float>(signed_level);
  }
}

}  // namespace

BlockCodec::Pass::Pass(const BlockCodec& codec, TokenRange range, CodecScratch::Buffers& buffers)
    : codec_(codec), range_(range), b_(buffers) {
  auto grow = [](std::vector<float>& v, std::size_t n) {
    if (v.size() < n) v.resize(n);
  };
  b_.z.resize(std::max(b_.z.size(), codec.packed_.size()));
  for (std::size_t u = 0; u < codec.packed_.size(); ++u) {
    const PackedUnit& unit = codec.packed_[u];
    grow(b_.z[u], kTileRows * XStride(unit.width));
    grow(b_.in, kTileRows * XStride(std::max(unit.width, unit.from)));
    grow(b_.prediction, kTileRows * unit.width);
    grow(b_.product, kTileRows * unit.width);
  }
  for (int64_t t = 0; t < range.size(); ++t) rows_.set(RowOf(t));
}

float* BlockCodec::Pass::Z(std::size_t u, int row) {
  return b_.z[u].data() + static_cast<std::size_t>(row) * XStride(codec_.packed_[u].width);
}

void BlockCodec::Pass::Predict(std::size_t u) {
  const PackedUnit& unit = codec_.packed_[u];
  if (unit.from == 0) {
    std::fill_n(b_.prediction.data(), kTileRows * unit.width, 0.0f);
    return;
  }
  const std::size_t stride = XStride(unit.from);
  for (int64_t t = 0; t < range_.size(); ++t) {
    const int row = RowOf(t);
    float* out = b_.in.data() + row * stride;
    for (int c : codec_.weights_.plan[u].conditions) {
      const int width = codec_.packed_[c].width;
      out = std::copy_n(Z(c, row), width, out);
    }
  }
  kernels::GemmTile(unit.predictor, b_.in.data(), rows_, b_.prediction.data());
}

void BlockCodec::Pass::Rotate(std::size_t u, const PreRopeBlock& rows) {
  const int kv = rows.kv;
  const std::size_t stride = XStride(codec_.packed_[u].width);
  const std::vector<CachePlane>& planes = codec_.weights_.plan[u].planes;
  for (std::size_t i = 0; i < planes.size(); ++i) {
    const std::size_t plane = 2 * static_cast<std::size_t>(planes[i].layer) + planes[i].part;
    const float* mean = codec_.weights_.mean.data() + plane * kv;
    const float inverse = 1.0f / codec_.weights_.scale[plane];
    for (int64_t t = 0; t < range_.size(); ++t) {
      const float* x = rows.rows(planes[i].layer, planes[i].part) + t * kv;
      float* out = b_.in.data() + RowOf(t) * stride + i * kv;
      for (int j = 0; j < kv; ++j) out[j] = (x[j] - mean[j]) * inverse;
    }
  }
  kernels::GemmTile(codec_.packed_[u].rotation, b_.in.data(), rows_, b_.product.data());
}

std::vector<int32_t> BlockCodec::Pass::Quantise(std::size_t u, float step) {
  const int width = codec_.packed_[u].width;
  const std::size_t tokens = static_cast<std::size_t>(range_.size());
  if (!std::isfinite(step)) {
    Dequantise(u, step, {});
    return {};
  }
  b_.q.resize(std::max(b_.q.size(), tokens * width));
  for (std::size_t t = 0; t < tokens; ++t) {
    const std::size_t row = static_cast<std::size_t>(RowOf(static_cast<int64_t>(t)));
    QuantiseRow(b_.product.data() + row * width, b_.prediction.data() + row * width, step, width,
                b_.q.data() + t * width, Z(u, static_cast<int>(row)));
  }
  std::vector<int32_t> q(tokens * width);
  Transpose(b_.q.data(), static_cast<int>(tokens), width, q.data());
  return q;
}

void BlockCodec::Pass::Dequantise(std::size_t u, float step, const std::vector<int32_t>& q) {
  const int width = codec_.packed_[u].width;
  const int tokens = static_cast<int>(range_.size());
  b_.q.resize(std::max(b_.q.size(), static_cast<std::size_t>(tokens) * width));
  if (!q.empty()) Transpose(q.data(), width, tokens, b_.q.data());
  for (int t = 0; t < tokens; ++t) {
    const int row = RowOf(t);
    const float* p = b_.prediction.data() + static_cast<std::size_t>(row) * width;
    float* z = Z(u, row);
    const int32_t* levels = b_.q.data() + static_cast<std::size_t>(t) * width;
    if (q.empty()) {
      std::copy_n(p, width, z);
    } else {
      for (int j = 0; j < width; ++j) z[j] = p[j] + step * static_cast<float>(levels[j]);
    }
  }
}

void BlockCodec::Pass::Multiply(std::size_t u) {
  const PackedUnit& unit = codec_.packed_[u];
  if (unit.from > 0) kernels::GemmTile(unit.predictor, b_.in.data(), rows_, b_.prediction.data());
  kernels::GemmTile(unit.back, b_.z[u].data(), rows_, b_.product.data());
}

void BlockCodec::Pass::RotateBack(std::size_t u, PreRopeBlock& rows) {
  const int width = codec_.packed_[u].width, kv = rows.kv;
  kernels::GemmTile(codec_.packed_[u].back, b_.z[u].data(), rows_, b_.product.data());
  const std::vector<CachePlane>& planes = codec_.weights_.plan[u].planes;
  for (std::size_t i = 0; i < planes.size(); ++i) {
    const std::size_t plane = 2 * static_cast<std::size_t>(planes[i].layer) + planes[i].part;
    const float* mean = codec_.weights_.mean.data() + plane * kv;
    const float scale = codec_.weights_.scale[plane];
    for (int64_t t = 0; t < range_.size(); ++t) {
      const float* x = b_.product.data() + static_cast<std::size_t>(RowOf(t)) * width + i * kv;
      float* out = rows.rows(planes[i].layer, planes[i].part) + t * kv;
      for (int j = 0; j < kv; ++j) out[j] = mean[j] + scale * x[j];
    }
  }
}

}  // namespace riskkv

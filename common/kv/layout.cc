#include "common/kv/layout.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace riskkv {

KvBlock KvBlock::Make(const KvLayout& layout, TokenRange range, std::vector<int> layers) {
  KvBlock block;
  block.range = range.empty() ? TokenRange{range.begin, range.begin} : range;
  block.layers = std::move(layers);
  block.kv = layout.kv();
  block.data.assign(block.Offset(static_cast<int>(block.layers.size()), 0), 0);
  return block;
}

int KvBlock::IndexOf(int layer) const {
  auto it = std::lower_bound(layers.begin(), layers.end(), layer);
  return it != layers.end() && *it == layer ? static_cast<int>(it - layers.begin()) : -1;
}

std::string KvBlock::Digest() const {
  Sha256 sha;
  sha.Update(data.data(), data.size() * sizeof(uint16_t));
  return sha.HexDigest();
}

std::vector<int> AllLayers(const KvLayout& layout) { return LayersExcept(layout, {}); }

std::vector<int> LayersExcept(const KvLayout& layout, const std::vector<int>& omit) {
  std::vector<int> layers;
  for (int l = 0; l < layout.n_layer; ++l) {
    if (std::find(omit.begin(), omit.end(), l) == omit.end()) layers.push_back(l);
  }
  return layers;
}

absl::Status CheckBlock(const KvLayout& layout, const KvBlock& block) {
  if (block.kv != layout.kv()) {
    return absl::InvalidArgumentError(
        fmt::format("block has rows of {} elements, the model of {}", block.kv, layout.kv()));
  }
  if (block.range.begin < 0 || block.range.end < block.range.begin ||
      block.range.end > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        fmt::format("bad token range [{}, {})", block.range.begin, block.range.end));
  }
  RETURN_IF_ERROR(CheckLayers(layout, block.layers));
  const uint64_t want = static_cast<uint64_t>(block.layers.size()) * 2 * block.range.size() * block.kv;
  if (block.data.size() != want) {
    return absl::InvalidArgumentError(
        fmt::format("block of {} tokens and {} layers needs {} elements, has {}", block.range.size(),
                    block.layers.size(), want, block.data.size()));
  }
  return absl::OkStatus();
}

absl::Status CheckLayers(const KvLayout& layout, const std::vector<int>& layers) {
  int last = -1;
  for (int l : layers) {
    if (l <= last || l >= layout.n_layer) {
      return absl::InvalidArgumentError(fmt::format("layers {} are not ascending and within [0, {})",
                                                    fmt::join(layers, ","), layout.n_layer));
    }
    last = l;
  }
  return absl::OkStatus();
}

absl::StatusOr<KvBlock> Slice(const KvBlock& block, TokenRange range, const std::vector<int>& layers) {
  if (range.begin < block.range.begin || range.end > block.range.end || range.end < range.begin) {
    return absl::InvalidArgumentError(fmt::format("range [{}, {}) is not within the block's [{}, {})",
                                                  range.begin, range.end, block.range.begin,
                                                  block.range.end));
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0 && layers[i] <= layers[i - 1]) {
      return absl::InvalidArgumentError(fmt::format("layers {} are not ascending", fmt::join(layers, ",")));
    }
    if (block.IndexOf(layers[i]) < 0) {
      return absl::InvalidArgumentError(
          fmt::format("layer {} is not among the block's ({})", layers[i], fmt::join(block.layers, ",")));
    }
  }
  KvLayout shape;
  shape.n_head_kv = 1;
  shape.head_dim = block.kv;
  KvBlock out = KvBlock::Make(shape, range, layers);
  const std::size_t skip = static_cast<std::size_t>(range.begin - block.range.begin) * block.kv;
  const std::size_t bytes = static_cast<std::size_t>(range.size()) * block.kv * sizeof(uint16_t);
  if (bytes == 0) return out;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const int from = block.IndexOf(layers[i]);
    std::memcpy(out.k(static_cast<int>(i)), block.k(from) + skip, bytes);
    std::memcpy(out.v(static_cast<int>(i)), block.v(from) + skip, bytes);
  }
  return out;
}

}  // namespace riskkv

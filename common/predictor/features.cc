#include "common/predictor/features.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "fmt/format.h"
#include "kernels/fp16.h"
#include "kernels/rope.h"

namespace riskkv {
namespace {

using kernels::RopePairing;

struct Turn {
  float cosine = 1, sine = 0;
};

// [token][pair] for positions from `begin`.
std::vector<Turn> Turns(const RopeParams& rope, TokenRange range) {
  const int pairs = rope.rotary_dim / 2;
  std::vector<double> frequency(static_cast<std::size_t>(pairs));
  for (int i = 0; i < pairs; ++i) frequency[i] = kernels::RopeFrequency(rope, i);
  std::vector<Turn> turns;
  turns.reserve(static_cast<std::size_t>(range.size()) * pairs);
  for (int64_t t = range.begin; t < range.end; ++t) {
    for (int i = 0; i < pairs; ++i) {
      const double angle = kernels::RopeAngle(static_cast<int32_t>(t), frequency[i]);
      turns.push_back({static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
    }
  }
  return turns;
}

// Turns the keys of one layer, forward or back.
void TurnKeys(const KvLayout& layout, const std::vector<Turn>& turns, int64_t n_tokens, bool forward, float* keys) {
  const RopeParams& rope = layout.rope;
  const int pairs = rope.rotary_dim / 2;
  for (int64_t t = 0; t < n_tokens; ++t) {
    const Turn* turn = turns.data() + t * pairs;
    for (int h = 0; h < layout.n_head_kv; ++h) {
      float* head = keys + (t * layout.n_head_kv + h) * layout.head_dim;
      for (int i = 0; i < pairs; ++i) {
        int lo = 0, hi = 0;
        kernels::RopePairDims(rope.pairing, rope.rotary_dim, i, &lo, &hi);
        const float sine = forward ? turn[i].sine : -turn[i].sine;
        kernels::RopeForward(turn[i].cosine, sine, &head[lo], &head[hi]);
      }
    }
  }
}

}  // namespace

absl::StatusOr<PreRopeBlock> UndoRope(const KvLayout& layout, const KvBlock& block) {
  RETURN_IF_ERROR(CheckBlock(layout, block));
  PreRopeBlock out;
  out.range = block.range;
  out.layers = block.layers;
  out.kv = block.kv;
  out.data.resize(block.data.size());
  kernels::HalfToFloat(block.data.data(), out.data.data(), block.data.size());
  if (layout.rope.pairing == RopePairing::kNone) return out;
  const std::vector<Turn> turns = Turns(layout.rope, block.range);
  for (std::size_t i = 0; i < block.layers.size(); ++i) {
    TurnKeys(layout, turns, block.range.size(), /*forward=*/false, out.rows(static_cast<int>(i), 0));
  }
  return out;
}

absl::StatusOr<KvBlock> RedoRope(const KvLayout& layout, PreRopeBlock rows) {
  RETURN_IF_ERROR(CheckLayers(layout, rows.layers));
  KvBlock out = KvBlock::Make(layout, rows.range, rows.layers);
  if (out.data.size() != rows.data.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} elements of rows, wanted {}", rows.data.size(), out.data.size()));
  }
  if (layout.rope.pairing != RopePairing::kNone) {
    const std::vector<Turn> turns = Turns(layout.rope, rows.range);
    for (std::size_t i = 0; i < rows.layers.size(); ++i)
      TurnKeys(layout, turns, rows.range.size(), /*forward=*/true, rows.rows(static_cast<int>(i), 0));
  }
  kernels::FloatToHalf(rows.data.data(), out.data.data(), out.data.size());
  if (kernels::AllFinite(out.data.data(), out.data.size())) return out;
  return absl::OutOfRangeError(
      fmt::format("cells [{}, {}): an element does not fit fp16", rows.range.begin, rows.range.end));
}

std::vector<double> GatherColumns(const PreRopeBlock& block, const std::vector<int>& layers, int64_t from,
                                  int64_t to) {
  const std::size_t kv = static_cast<std::size_t>(block.kv);
  const std::size_t width = 2 * kv * layers.size();
  std::vector<double> out(static_cast<std::size_t>(to - from) * width);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto it = std::lower_bound(block.layers.begin(), block.layers.end(), layers[i]);
    const int index = static_cast<int>(it - block.layers.begin());
    for (int part = 0; part < 2; ++part) {
      const float* rows = block.rows(index, part) + static_cast<std::size_t>(from - block.range.begin) * kv;
      for (int64_t t = 0; t < to - from; ++t) {
        std::copy_n(rows + static_cast<std::size_t>(t) * kv, kv,
                    out.data() + static_cast<std::size_t>(t) * width + (2 * i + part) * kv);
      }
    }
  }
  return out;
}

}  // namespace riskkv

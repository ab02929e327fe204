#include "common/engine/fake/fake_model.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <span>

#include "common/base/digest.h"
#include "common/engine/checks.h"

namespace riskkv {

int FakeGroupCount(int n_layer) { return n_layer < 6 ? 0 : (n_layer - 2) / 4; }

int FakeSourceLayer(int n_layer, int layer) {
  if (layer / 4 >= FakeGroupCount(n_layer)) return layer;
  if (layer % 4 == 2) return layer - 1;
  if (layer % 4 == 3) return layer + 1;
  return layer;
}

uint16_t HalfOfInt(int value) {
  if (value == 0) return 0;
  const unsigned magnitude = static_cast<unsigned>(std::abs(value));
  const int exponent = std::bit_width(magnitude) - 1;
  const unsigned mantissa =
      exponent <= 10 ? (magnitude << (10 - exponent)) & 0x3ffu : (magnitude >> (exponent - 10)) & 0x3ffu;
  return static_cast<uint16_t>((value < 0 ? 0x8000u : 0u) | static_cast<unsigned>(exponent + 15) << 10 |
                               mantissa);
}

void FakeCells(const KvLayout& layout, uint64_t model_seed, uint64_t prefix, Token token, uint16_t* cells) {
  const std::size_t row = 2 * static_cast<std::size_t>(layout.kv());
  const uint64_t base = MixSeed(MixSeed(model_seed, prefix), static_cast<uint64_t>(token));
  for (int layer = 0; layer < layout.n_layer; ++layer) {
    const uint64_t source = static_cast<uint64_t>(FakeSourceLayer(layout.n_layer, layer));
    uint16_t* out = cells + static_cast<std::size_t>(layer) * row;
    for (std::size_t i = 0; i < row; ++i) {
      out[i] = HalfOfInt(static_cast<int>(MixSeed(base, source << 32 | i) % 2048) - 1024);
    }
  }
}

uint64_t FakeExtendPrefix(uint64_t prefix, const uint16_t* cells, std::size_t elements) {
  return MixSeed(prefix, Xxh3(cells, elements * sizeof(uint16_t)));
}

uint64_t FakeDrawHash(uint64_t prefix, const SamplingParams& params, std::span<const Token> history) {
  uint64_t h = MixSeed(prefix, history.size());
  auto add = [&h](auto value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(value));
    h = MixSeed(h, bits);
  };
  if (params.temperature > 0) {
    add(params.temperature);
    add(params.seed);
    add(params.top_k);
    add(params.top_p);
    add(params.min_p);
  }
  if (HasPenalties(params)) {
    add(params.repeat_penalty);
    add(params.frequency_penalty);
    add(params.presence_penalty);
    const std::size_t n = std::min(history.size(), static_cast<std::size_t>(params.penalty_last_n));
    for (Token t : history.last(n)) add(t);
  }
  if (!params.grammar.empty()) add(Xxh3(params.grammar.data(), params.grammar.size()));
  return h;
}

Token FakeDraw(uint64_t hash, int n_vocab) {
  static constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const uint64_t i = hash % (kLetters.size() + static_cast<uint64_t>(n_vocab - kFakeFirstLetter));
  if (i < kLetters.size()) return static_cast<unsigned char>(kLetters[i]);
  return kFakeFirstLetter + static_cast<Token>(i - kLetters.size());
}

std::vector<FakeGroupWeights> FakePredictor(const KvLayout& layout, float scale) {
  std::vector<FakeGroupWeights> groups;
  const std::size_t row = 2 * static_cast<std::size_t>(layout.kv());  // K then V of one layer
  for (int g = 0; g < FakeGroupCount(layout.n_layer); ++g) {
    FakeGroupWeights w;
    w.anchors = {4 * g, 4 * g + 1, 4 * g + 4, 4 * g + 5};
    w.targets = {4 * g + 2, 4 * g + 3};
    w.b.assign(4 * row * 2 * row, 0.0f);
    w.bias.assign(2 * row, 0.0f);
    for (std::size_t t = 0; t < w.targets.size(); ++t) {
      const int source = FakeSourceLayer(layout.n_layer, w.targets[t]);
      const std::size_t a = source == w.anchors[1] ? 1 : 2;
      for (std::size_t i = 0; i < row; ++i) w.b[(a * row + i) * 2 * row + t * row + i] = scale;
    }
    groups.push_back(std::move(w));
  }
  return groups;
}

kernels::PredictorSetView FakePredictorView(const KvLayout& layout,
                                            const std::vector<FakeGroupWeights>& groups) {
  kernels::PredictorSetView view;
  view.n_head_kv = layout.n_head_kv;
  view.head_dim = layout.head_dim;
  view.rope = layout.rope;
  for (const FakeGroupWeights& w : groups) {
    view.groups.push_back({w.anchors, w.targets, w.b.data(), w.bias.data(), kernels::WeightType::kF32});
  }
  return view;
}

}  // namespace riskkv

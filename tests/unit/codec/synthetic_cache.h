// Caches whose layers depend on each other, as a model's do, and weights fitted on them.
#ifndef RISKKV_TESTS_UNIT_CODEC_SYNTHETIC_CACHE_H_
#define RISKKV_TESTS_UNIT_CODEC_SYNTHETIC_CACHE_H_

#include <random>
#include <vector>

#include "common/codec/block_codec.h"
#include "common/codec/codec_fitter.h"
#include "common/predictor/features.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::testing {

inline KvLayout SmallLayout(int n_layer = 10, int n_head_kv = 2, int head_dim = 6) {
  KvLayout layout;
  layout.n_layer = n_layer;
  layout.n_head_kv = n_head_kv;
  layout.head_dim = head_dim;
  layout.rope = {kernels::RopePairing::kNeighbours, head_dim / 2 * 2, 1000.0f, 1.0f, {}};
  return layout;
}

// A hidden state that drifts from layer to layer, seen through fixed projections, keys after RoPE. `loudness`
// scales what is not the mean: text unlike the calibration's.
inline KvBlock SyntheticCache(const KvLayout& layout, TokenRange range, uint32_t seed, float loudness = 1.0f) {
  const int kv = layout.kv(), d = kv + 3;
  std::mt19937 fixed(7), random(seed);
  std::normal_distribution<float> normal;
  PreRopeBlock block;
  block.range = range;
  block.layers = AllLayers(layout);
  block.kv = kv;
  block.data.resize(2 * block.layers.size() * static_cast<std::size_t>(range.size()) * kv);
  std::vector<float> hidden(static_cast<std::size_t>(range.size()) * d);
  for (float& h : hidden) h = normal(random);
  for (int l = 0; l < layout.n_layer; ++l) {
    for (float& h : hidden) h = 0.95f * h + 0.3f * normal(random);
    for (int part = 0; part < 2; ++part) {
      std::vector<float> projection(static_cast<std::size_t>(d) * kv), mean(static_cast<std::size_t>(kv));
      for (float& p : projection) p = normal(fixed);
      for (float& m : mean) m = 2 * normal(fixed);
      for (int64_t t = 0; t < range.size(); ++t) {
        for (int j = 0; j < kv; ++j) {
          float sum = 0;
          for (int i = 0; i < d; ++i) sum += hidden[static_cast<std::size_t>(t) * d + i] * projection[static_cast<std::size_t>(i) * kv + j];
          block.rows(l, part)[t * kv + j] = mean[j] + loudness * sum;
        }
      }
    }
  }
  auto out = RedoRope(layout, std::move(block));
  return out.ok() ? *std::move(out) : KvBlock{};
}

inline absl::StatusOr<CodecWeights> FitWeights(const KvLayout& layout, CodedPlan plan, double ridge = kCodecRidge,
                                               int windows = 8) {
  CodecFitter fitter(layout, std::move(plan), 1);
  for (int w = 0; w < windows; ++w) {
    ASSIGN_OR_RETURN(const PreRopeBlock rows,
                     UndoRope(layout, SyntheticCache(layout, {0, 128}, 100u + static_cast<uint32_t>(w))));
    fitter.Add(rows, 0, 128);
  }
  return fitter.Solve(ridge);
}

inline absl::StatusOr<std::unique_ptr<BlockCodec>> FittedCodec(const KvLayout& layout) {
  ASSIGN_OR_RETURN(CodecWeights weights, FitWeights(layout, PairPlan(layout.n_layer)));
  return BlockCodec::Create(layout, std::move(weights));
}

}  // namespace riskkv::testing

#endif  // RISKKV_TESTS_UNIT_CODEC_SYNTHETIC_CACHE_H_

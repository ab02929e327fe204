// The codec that coded_block_fuzz decodes with and make_corpus codes with: no library's rounding is in its weights,
// so that a corpus stays good.
#ifndef RISKKV_TESTS_FUZZ_CODED_BLOCK_SEED_H_
#define RISKKV_TESTS_FUZZ_CODED_BLOCK_SEED_H_

#include <memory>
#include <utility>

#include "common/codec/block_codec.h"

namespace riskkv {

inline constexpr float kCodedSeedStep = 0.25f;

inline std::unique_ptr<BlockCodec> CodedBlockSeed() {
  KvLayout layout;
  layout.n_layer = 6;
  layout.n_head_kv = 1;
  layout.head_dim = 4;
  CodecWeights w;
  w.plan = PairPlan(layout.n_layer);
  w.mean.assign(static_cast<std::size_t>(layout.n_layer) * 2 * layout.kv(), 0.0f);
  w.scale.assign(static_cast<std::size_t>(layout.n_layer) * 2, 1.0f);
  for (const CodedUnit& unit : w.plan) {
    const std::size_t width = static_cast<std::size_t>(UnitWidth(unit, layout.kv()));
    const std::size_t from = static_cast<std::size_t>(ConditionWidth(w.plan, unit, layout.kv()));
    UnitWeights weights;
    weights.rotation.assign(width * width, 0.0f);
    for (std::size_t i = 0; i < width; ++i) weights.rotation[i * width + i] = 1.0f;
    weights.predictor.assign(from * width, 1.0f / 64);
    // From classes of several raw bits to those that are nearly always zero.
    for (std::size_t i = 0; i < width; ++i) weights.variance.push_back(64.0f / static_cast<float>(1u << i));
    w.units.push_back(std::move(weights));
  }
  // Integer frequencies: a geometric fall, the same in every class.
  FrequencyTables::Row row{};
  row[kEscapeSymbol] = 64;
  int left = kProbabilityScale - 64;
  for (int s = 0; s + 1 < kEscapeSymbol; ++s) {
    row[s] = static_cast<uint16_t>(left / 8 > 0 ? left / 8 : 0);
    left -= row[s];
  }
  row[0] = static_cast<uint16_t>(row[0] + left);
  auto tables = FrequencyTables::Create(std::vector<FrequencyTables::Row>(kRows, row));
  if (!tables.ok()) return nullptr;
  w.tables = *tables;
  auto codec = BlockCodec::Create(layout, std::move(w));
  return codec.ok() ? *std::move(codec) : nullptr;
}

}  // namespace riskkv

#endif  // RISKKV_TESTS_FUZZ_CODED_BLOCK_SEED_H_

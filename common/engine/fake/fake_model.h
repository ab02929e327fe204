// The arithmetic of the fake model: cells, next tokens, and the predictor that rebuilds its omitted layers
// bit-exactly.
#ifndef RISKKV_COMMON_ENGINE_FAKE_FAKE_MODEL_H_
#define RISKKV_COMMON_ENGINE_FAKE_FAKE_MODEL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/engine/engine.h"
#include "common/kv/layout.h"
#include "kernels/backend.h"

namespace riskkv {

// Tokens of the fake: bytes, then begin and end of text, then letters (all further ids).
inline constexpr Token kFakeBos = 256;
inline constexpr Token kFakeEos = 257;
inline constexpr int kFakeFirstLetter = 258;

// The layer whose cells layer `layer` copies: the left inner anchor for 4g+2, the right inner one for 4g+3,
// itself for all others. Groups are the paper's: floor((n_layer - 2) / 4) of two targets between two anchors
// on each side.
int FakeSourceLayer(int n_layer, int layer);
int FakeGroupCount(int n_layer);

// Writes the cells of one token, [layer][K|V][kv] fp16 integers in [-1024, 1024). `prefix` is the hash of
// every cell before it, so a cell depends on the whole history as stored.
void FakeCells(const KvLayout& layout, uint64_t model_seed, uint64_t prefix, Token token, uint16_t* cells);
// Extends a prefix hash by one token's cells; kFakeEmptyPrefix starts it.
inline constexpr uint64_t kFakeEmptyPrefix = 0x6b76u;
uint64_t FakeExtendPrefix(uint64_t prefix, const uint16_t* cells, std::size_t elements);

// The hash a draw is made from: the prefix over all cells, the parameters that matter, and the index of the
// token.
uint64_t FakeDrawHash(uint64_t prefix, const SamplingParams& params, std::span<const Token> history);
// Every drawn token is a letter, a digit, or an id from kFakeFirstLetter on.
Token FakeDraw(uint64_t hash, int n_vocab);

// fp16 bits of an integer within [-2048, 2048], exact.
uint16_t HalfOfInt(int value);

// The folded predictor of one group, exact for the fake's cells: selection matrices scaled by `scale` (1
// rebuilds bit-exactly, anything else is a wrong predictor for tests of the probe and the fallback) and a
// zero intercept.
struct FakeGroupWeights {
  std::vector<int> anchors;  // 4g, 4g+1, 4g+4, 4g+5
  std::vector<int> targets;  // 4g+2, 4g+3
  std::vector<float> b;      // [8*kv, 4*kv], row-major
  std::vector<float> bias;   // [4*kv]
};
std::vector<FakeGroupWeights> FakePredictor(const KvLayout& layout, float scale = 1.0f);
// A view for Backend::Upload; `groups` must outlive it.
kernels::PredictorSetView FakePredictorView(const KvLayout& layout,
                                            const std::vector<FakeGroupWeights>& groups);

}  // namespace riskkv

#endif  // RISKKV_COMMON_ENGINE_FAKE_FAKE_MODEL_H_

// What every engine refuses before it computes anything, and the sampling facts both share.
#ifndef RISKKV_COMMON_ENGINE_CHECKS_H_
#define RISKKV_COMMON_ENGINE_CHECKS_H_

#include <functional>
#include <span>

#include "common/engine/engine.h"

namespace riskkv {

inline bool HasPenalties(const SamplingParams& p) {
  return p.penalty_last_n > 0 &&
         (p.repeat_penalty != 1.0f || p.frequency_penalty != 0.0f || p.presence_penalty != 0.0f);
}

// Sequence length by id; -1 for an unknown id.
using LengthFn = std::function<int64_t(SeqId)>;

// INVALID_ARGUMENT for a malformed batch: no tokens, more than max_batch, a sequence that is unknown or named
// twice, n_past that is not its length, tokens outside the vocabulary, sampling without valid parameters or
// with a history that does not end in `tokens` or is not n_past + tokens.size() long. RESOURCE_EXHAUSTED
// (NO_BLOCKS) when cells_free is too small.
absl::Status CheckStep(std::span<const StepItem> items, const EngineLimits& limits, int n_vocab,
                       int64_t cells_free, const LengthFn& length);
absl::Status CheckTokens(std::span<const Token> tokens, int n_vocab);
// RESOURCE_EXHAUSTED (NO_BLOCKS) naming both numbers when `wanted` is more than `cells_free`.
absl::Status CheckCells(int64_t wanted, int64_t cells_free);

// INVALID_ARGUMENT unless `block` is well-formed, holds all layers and begins at `length`; RESOURCE_EXHAUSTED
// (NO_BLOCKS).
absl::Status CheckAppend(const KvLayout& layout, const KvBlock& block, int64_t length, int64_t cells_free);
// INVALID_ARGUMENT unless [range) lies within the sequence's `length` cells and `layers` are the model's.
absl::Status CheckExport(const KvLayout& layout, SeqId seq, int64_t length, TokenRange range,
                         const std::vector<int>& layers);

// The generator of one draw is seeded by (request seed, index of the token among the request's tokens).
uint64_t MixSeed(uint64_t seed, uint64_t index);

}  // namespace riskkv

#endif  // RISKKV_COMMON_ENGINE_CHECKS_H_

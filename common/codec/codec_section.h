// The codec's section of a predictor set: common/README.md has the format.
#ifndef RISKKV_COMMON_CODEC_CODEC_SECTION_H_
#define RISKKV_COMMON_CODEC_CODEC_SECTION_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/codec/block_codec.h"
#include "common/codec/codec_weights.h"
#include "common/codec/coded_profile.h"
#include "common/predictor/predictor_set.h"

namespace riskkv {

inline constexpr char kCodecSection[] = "codec";
inline constexpr int kCodecSectionVersion = 1;

// Rotations and predictors in fp16 or 8 bits (RoundToHalf or RoundToInt8 first, so that what was measured is what is
// written).
SetSection ToSection(const CodecWeights& weights, int kv, const std::vector<CodedProfile>& profiles = {});

bool HasCodec(const PredictorSet& set);

// NOT_FOUND (PREDICTOR_MISSING) when the set has no codec; FAILED_PRECONDITION (PROTOCOL_VERSION) with both versions
// when it has another one's; DATA_LOSS (CORRUPT_FILE) naming what does not fit.
absl::StatusOr<CodecWeights> ReadCodecWeights(const PredictorSet& set);
absl::StatusOr<std::unique_ptr<BlockCodec>> OpenCodec(const PredictorSet& set);

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_CODEC_SECTION_H_

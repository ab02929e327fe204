// Which steps to give the units of a codec: every step coarser saves bytes and costs an error, and the moves that
// cost least for a byte come first.
#ifndef RISKKV_COMMON_CODEC_STEP_PATH_H_
#define RISKKV_COMMON_CODEC_STEP_PATH_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/codec/block_codec.h"
#include "common/kv/layout.h"

namespace riskkv {

// What one unit sends and what is wrong with it afterwards at each step, a token: bytes, and the squared error summed
// over its elements in units of its planes' scales, which hold what an error there costs (CodecFitter::Solve).
struct UnitCurve {
  std::vector<double> bytes;
  std::vector<double> error;
};

// Over `blocks` (all layers, at most kCodedBlockTokens tokens each), all units at the same step at a time; `steps`
// ascending, an infinite one at the end omits: its error is the calibrated variance of the residual, so that it does
// not hold what omitting the other units costs. INVALID_ARGUMENT without a block or a step.
absl::StatusOr<std::vector<UnitCurve>> MeasureUnitCurves(const BlockCodec& codec, std::span<const KvBlock> blocks,
                                                         std::span<const float> steps, CodecScratch& scratch);

// Steps of all units with what the curves promise, a token.
struct StepPoint {
  std::vector<float> steps;  // by unit
  double bytes = 0, error = 0;
};

// From all units at the finest step to all at the last, one move of one unit at a time. A unit's moves are the edges
// of the lower convex hull of its curve (what lies above it is never worth its bytes); in ascending order of error
// per byte saved, which makes every point the least error at its bytes. Points within `ratio` of the bytes of the one
// kept before are left out: 1 keeps all. The first and the last are always there.
std::vector<StepPoint> WalkSteps(std::span<const UnitCurve> curves, std::span<const float> steps, double ratio);

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_STEP_PATH_H_

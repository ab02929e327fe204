// The probe of a coded move: exact rows beside decoded ones. What is coded is never further from what was
// decoded than the quantiser's dead zone, so the bound follows from the steps: no calibration, no false
// alarms, on any text.
#ifndef RISKKV_COMMON_CODEC_CODED_PROBE_H_
#define RISKKV_COMMON_CODEC_CODED_PROBE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/codec/block_codec.h"
#include "common/predictor/rebuild.h"

namespace riskkv {

// Layers whose rows a block's probe carries, ascending: those of one unit with a finite step, another one
// from block to block of the same seed. Empty when every unit is omitted.
std::vector<int> CodedProbeLayers(const BlockCodec& codec, const CodedPolicy& policy, uint64_t seed,
                                  int64_t block);

// The worst error over its bound, over tokens and over the units whose planes are all among the probe's. For
// one token of a unit of width w at step s, in units of the planes' scale: |decoded - exact| <= 0.6 s
// sqrt(w), and a 64th of |exact| for the rounding of cells and weights. DATA_LOSS (VERIFY_GATE) naming unit,
// token and both values when one is above, is not a number, or nothing could be compared; INVALID_ARGUMENT
// when the probe lies outside the block.
absl::StatusOr<double> CheckCodedProbe(const BlockCodec& codec, const CodedPolicy& policy,
                                       const KvBlock& decoded, const ProbeRows& exact);

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_CODED_PROBE_H_

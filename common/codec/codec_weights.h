// What calibration gives the codec: transforms, variances, tables. The equations, for one token of a cache with
// keys before RoPE, x_p [kv] a plane, m_p its mean and s_p its scale (the square root of the mean variance of
// its elements):
//
//   y_u = ((x_p - m_p) / s_p for the planes p of unit u) R_u             rotated coordinates
//   z_u = P_u + step_u q_u,   P_u = (z_c for the conditions c of u) W_u  what the decoder has
//   q_u = sign(r) floor(|r| / step_u + 0.4),  r = y_u - P_u
//   x_p ~ m_p + s_p (z_u R_u')_p
//
// R_u holds the eigenvectors of the residual's calibrated covariance, W_u the linear predictor of the unit from
// its decoded conditions with both sides' rotations folded in, so that a decoded unit is turned back only once,
// at the end.
#ifndef RISKKV_COMMON_CODEC_CODEC_WEIGHTS_H_
#define RISKKV_COMMON_CODEC_CODEC_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/codec/frequency_tables.h"
#include "common/codec/plan.h"

namespace riskkv {

// Row-major.
struct UnitWeights {
  std::vector<float> rotation;   // R [width, width]
  std::vector<float> predictor;  // W [condition width, width]; empty without conditions
  std::vector<float> variance;   // [width] of the residual's coordinates, descending
  // [width] what an integer of 8 bits stands for in each column of the above; both empty for weights in fp16.
  std::vector<float> rotation_scale, predictor_scale;
};

struct CodecWeights {
  CodedPlan plan;
  std::vector<float> mean;   // [n_layer][K|V][kv]
  std::vector<float> scale;  // [n_layer][K|V], positive
  std::vector<UnitWeights> units;
  std::shared_ptr<const FrequencyTables> tables;
};

// INVALID_ARGUMENT naming the unit and both sizes unless every part fits the plan and the model, and every
// number is finite, scales and variances positive.
absl::Status CheckCodecWeights(const CodecWeights& weights, int n_layer, int kv);

// Rounds rotations and predictors as the fp16 file does: what is measured is then what is deployed.
// OUT_OF_RANGE naming the unit when a weight does not fit fp16.
absl::Status RoundToHalf(CodecWeights& weights);

// The same for weights in 8 bits: integers from -127 to 127 and a scale for each column, half the size of fp16. The
// rotation is then no longer quite orthogonal: an error of about a 250th of a coordinate's size comes back from it.
void RoundToInt8(CodecWeights& weights);

// XXH3-64 over everything that both sides must share.
uint64_t CodecDigest(const CodecWeights& weights);

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_CODEC_WEIGHTS_H_

// The arithmetic of the coded transforms, element by element, shared by the CPU backend and the CUDA kernels: what is
// tested on the CPU is what the GPU runs.
#ifndef RISKKV_KERNELS_CODEC_ELEMENTS_H_
#define RISKKV_KERNELS_CODEC_ELEMENTS_H_

#include <cmath>
#include <cstdint>

#include "kernels/rope.h"

namespace riskkv::kernels {

RISKKV_HD inline float Centred(float x, float mean, float inverse_scale) { return (x - mean) * inverse_scale; }
RISKKV_HD inline float Restored(float x, float mean, float scale) { return mean + scale * x; }

// What a quantiser needs beside its step: 1 - dead zone, and the magnitude at which levels stop.
struct LevelRule {
  float round;
  float stop;
};

// The level of a residual in steps. NaN comes out as the stop: neither comparison holds.
RISKKV_HD inline int32_t LevelOf(float residual, LevelRule rule) {
  const float level = fabsf(residual) + rule.round;
  const int32_t magnitude = static_cast<int32_t>(level < rule.stop ? level : rule.stop);
  return residual < 0.0f ? -magnitude : magnitude;
}

RISKKV_HD inline float Decoded(float prediction, float step, int32_t level) {
  return prediction + step * static_cast<float>(level);
}

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CODEC_ELEMENTS_H_

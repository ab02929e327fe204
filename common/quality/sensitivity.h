// What an error in each plane of a cache costs in NLL: noise is added to one pair of planes at a time.
#ifndef RISKKV_COMMON_QUALITY_SENSITIVITY_H_
#define RISKKV_COMMON_QUALITY_SENSITIVITY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/codec/plan.h"
#include "common/predictor/profile.h"
#include "common/quality/progress.h"
#include "common/quality/scorer.h"
#include "common/quality/windows.h"

namespace riskkv {

struct SensitivityOptions {
  double noise = 0.55;       // standard deviation of the noise, in units of the plane's own
  EndsPolicy ends{4, 36};    // cells without noise
  uint64_t seed = 1;
  // A ratio of two sensitivities is believed by half (in logarithms) and to this much: few windows are noisy, and far
  // from the optimum a wrong allocation costs more than none.
  double trust = 0.5;
  double largest_ratio = 4;  // of one to the geometric mean
};

// [n_layer][K|V], geometric mean one: the change of NLL from noise in a plane, per unit of its variance. Planes of one
// unit and part are measured together. `deviations` as CodecFitter::Deviations. Scores each window once for every
// unit and part, and once exactly.
absl::StatusOr<std::vector<double>> MeasureSensitivity(Engine& engine, const WindowSet& windows, const CodedPlan& plan,
                                                       const std::vector<float>& deviations,
                                                       const SensitivityOptions& options, Progress& progress);

// The rule that makes them of the measured changes, one for each (unit, part): exposed for its test. A change that is
// not positive counts as a fiftieth of the largest.
std::vector<double> ShrinkSensitivities(std::vector<double> changes, const SensitivityOptions& options);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_SENSITIVITY_H_

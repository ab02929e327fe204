// A codec for the fake engine's model, for tests and for `--engine fake`: its cells are noise that nothing
// predicts, so it has no predictors and turns nothing; quantiser, entropy coder and file are the real ones.
#ifndef RISKKV_COMMON_CODEC_SELECTION_CODEC_H_
#define RISKKV_COMMON_CODEC_SELECTION_CODEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/predictor/predictor_set.h"

namespace riskkv {

// `set` with a codec. Profiles, all marked gated but the last: "coded-0.002" (step 0.25, ends 4 and 36 in 8
// bits), "coded-0.005" (0.5, ends exact), "coded-ungated" (1).
absl::StatusOr<std::string> WithSelectionCodec(const PredictorSet& set);

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_SELECTION_CODEC_H_

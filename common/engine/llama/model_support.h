// What of a GGUF this project understands: the cache layout it gives, or a refusal that names the feature.
#ifndef RISKKV_COMMON_ENGINE_LLAMA_MODEL_SUPPORT_H_
#define RISKKV_COMMON_ENGINE_LLAMA_MODEL_SUPPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "common/engine/llama/gguf_file.h"

namespace riskkv {

// Fingerprint and shape read from the metadata alone (weights digest left empty). FAILED_PRECONDITION names
// what is not supported: another architecture than llama and qwen2, split files, sliding window, MLA,
// recurrent layers, layers with different numbers of heads, keys and values of different length, partial
// rotary embedding, rope scaling other than none and linear. INVALID_ARGUMENT for missing or impossible
// numbers.
absl::StatusOr<ModelFacts> ReadModelFacts(const GgufFile& file);

}  // namespace riskkv

#endif  // RISKKV_COMMON_ENGINE_LLAMA_MODEL_SUPPORT_H_

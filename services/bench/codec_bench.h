// How fast a cache is coded and decoded, against what its matrix products alone take and, where there is an engine,
// against the prefill of the same tokens: all in one run, turn by turn, so that a busy machine hurts both sides.
#ifndef RISKKV_SERVICES_BENCH_CODEC_BENCH_H_
#define RISKKV_SERVICES_BENCH_CODEC_BENCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/codec/block_codec.h"
#include "common/engine/engine.h"
#include "nlohmann/json.hpp"

namespace riskkv::bench {

struct CodecBenchOptions {
  int64_t tokens = 512;
  float step = 0.25f;
  int repetitions = 5;
  uint64_t seed = 1;
};

// Medians over the repetitions, seconds for all tokens, on one thread.
struct CodecBenchResult {
  int64_t tokens = 0;
  int64_t cache_bytes = 0, coded_bytes = 0;
  double ideal_bits = 0;  // static Laplace code length of the same levels
  double quantise = 0, pack = 0, unpack = 0, reconstruct = 0;
  double products = 0;  // the products of one direction alone
  double prefill = 0;   // 0 without an engine
  double gigaflops = 0; // of the products alone
};

// `cells`: all layers of consecutive tokens; more than `tokens` are not used. `engine` may be null; its threads
// should be one, as the codec's. `tokens_of_prefill` are what the engine is fed then.
absl::StatusOr<CodecBenchResult> BenchCodec(const BlockCodec& codec, const KvBlock& cells, const Clock& clock,
                                            const CodecBenchOptions& options, Engine* engine,
                                            const std::vector<Token>& prefill);

// Cells for a codec without a model: levels drawn as its variances say, decoded.
absl::StatusOr<KvBlock> DrawCells(const BlockCodec& codec, const CodecBenchOptions& options);

nlohmann::json ToJson(const CodecBenchResult& result);

}  // namespace riskkv::bench

#endif  // RISKKV_SERVICES_BENCH_CODEC_BENCH_H_

// A minimal decode loop over any Engine, for tests.
#ifndef RISKKV_TESTS_TESTING_ENGINE_DRIVER_H_
#define RISKKV_TESTS_TESTING_ENGINE_DRIVER_H_

#include <cstdint>
#include <vector>

#include "common/engine/engine.h"

namespace riskkv::testing {

// One request on one engine: its tokens, of which all but the newest sampled one have cells.
struct Stream {
  SeqId seq = -1;
  std::vector<Token> tokens;  // prompt and output
  int64_t n_prompt = 0;
  std::vector<float> logprobs;  // of the output
  std::vector<Token> output() const { return {tokens.begin() + n_prompt, tokens.end()}; }
};

// Opens a sequence, feeds the prompt in batches of `batch` and draws the first token.
absl::StatusOr<Stream> StartStream(Engine& engine, std::vector<Token> prompt, const SamplingParams& params,
                                   int batch = 64);
// Draws `n` more tokens, one a step.
absl::Status Continue(Engine& engine, Stream& stream, const SamplingParams& params, int n);
// Feeds tokens without sampling; they become cells.
absl::Status Feed(Engine& engine, SeqId seq, const std::vector<Token>& tokens, int batch = 64);
// A copy of the cells of `from` in a new sequence of `to`, in blocks of `block` tokens; the stream goes on
// there.
absl::StatusOr<Stream> MoveStream(Engine& from, Engine& to, const Stream& stream, int64_t block = 1 << 30);

}  // namespace riskkv::testing

#endif  // RISKKV_TESTS_TESTING_ENGINE_DRIVER_H_

// What computes tokens. Two implementations: engine/llama (libllama) and engine/fake (deterministic, for tests).
//
// A request's state is a pure function of (parameters, tokens): each draw uses a generator seeded by (request seed,
// index of the token), and penalties, grammar and partial UTF-8 are rebuilt by replaying the tokens. An engine holds
// only KV cells, so nothing hidden has to travel when a request moves.
#ifndef RISKKV_COMMON_ENGINE_ENGINE_H_
#define RISKKV_COMMON_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"

namespace riskkv {

using Token = int32_t;
using SeqId = int32_t;

// temperature 0 is greedy (seed, top_k, top_p, min_p unused). top_k 0 and top_p 1 switch those filters off.
struct SamplingParams {
  float temperature = 0.0f;
  int top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t seed = 0;
  float repeat_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  int penalty_last_n = 64;
  std::string grammar;   // GBNF, or empty
  int n_logprobs = 0;    // alternatives reported beside each token, 0..20

  absl::Status Validate() const;  // INVALID_ARGUMENT names the field and its value
};

struct ModelFacts {
  Fingerprint fingerprint;
  std::string name;
  int n_vocab = 0;
  int n_embd = 0;
  int n_head = 0;
  int n_ctx_train = 0;
  int64_t n_params = 0;
  Token bos = -1, eos = -1;
  // Largest change of a token's log-probability seen between batch shapes (environment.md, "Numbers depend on layout").
  double logprob_noise = 0.0;
};

struct EngineLimits {
  int64_t n_cells = 0;     // KV cells over all sequences
  int n_sequences = 0;     // sequences a caller may hold open
  int max_batch = 0;       // tokens in one Step
  int threads = 0;
};

// One sequence's share of a Step. `tokens` go into the cells [n_past, n_past + tokens.size()); n_past must be the
// sequence's length. With `sample`, the token after the last of `tokens` is drawn.
struct StepItem {
  SeqId seq = -1;
  int64_t n_past = 0;
  std::span<const Token> tokens;
  bool sample = false;
  const SamplingParams* sampling = nullptr;   // required with sample
  std::span<const Token> history;             // with sample: every token of the request up to and including `tokens`
  int64_t n_prompt = 0;                       // with sample: how many of `history` are the prompt
  bool forbid_end = false;                    // with sample: never draw an end-of-generation token (min_tokens), unless a
                                              // grammar allows nothing else
};

struct Sampled {
  Token token = -1;
  float logprob = 0.0f;                             // of the drawn token under the unmodified distribution
  float margin = 0.0f;                              // log-probability of the best minus the second best token
  bool end_of_generation = false;
  std::vector<std::pair<Token, float>> top;         // n_logprobs best, descending
};

// Threading: Tokenize, TokenText, facts, limits and Interrupt are thread-safe. Everything else must be called from one
// thread at a time (the decode loop). Errors: INVALID_ARGUMENT for a wrong call, RESOURCE_EXHAUSTED (NO_BLOCKS, NO_SLOT)
// without room, INTERNAL when the engine failed; a failed call leaves every sequence as it was unless stated.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual const ModelFacts& facts() const = 0;
  virtual const EngineLimits& limits() const = 0;

  // INVALID_ARGUMENT when Step would refuse these parameters, a grammar that does not parse included: call it when a request
  // is admitted, since a Step with one bad item fails as a whole. Thread-safe.
  virtual absl::Status CheckSampling(const SamplingParams& params) const { return params.Validate(); }

  // add_special: begin-of-text as the model wants it. parse_special: control tokens written in the text are taken as such.
  virtual absl::StatusOr<std::vector<Token>> Tokenize(std::string_view text, bool add_special, bool parse_special) const = 0;
  // The bytes of one token (maybe part of a UTF-8 character); control tokens give "" unless `special`.
  virtual std::string TokenText(Token token, bool special = false) const = 0;
  // The model's chat template applied to one user message, or the message itself when the model has none.
  virtual absl::StatusOr<std::string> ChatPrompt(std::string_view system, std::string_view user) const = 0;

  // An empty sequence. RESOURCE_EXHAUSTED (NO_SLOT).
  virtual absl::StatusOr<SeqId> OpenSequence() = 0;
  // Frees the sequence and its cells. Unknown ids are ignored.
  virtual void CloseSequence(SeqId seq) = 0;
  // Cells the sequence holds; 0 for an unknown id.
  virtual int64_t Length(SeqId seq) const = 0;
  virtual int64_t CellsUsed() const = 0;
  // Drops the cells from n on.
  virtual absl::Status Truncate(SeqId seq, int64_t n) = 0;

  // One batch over any sequences; the results stand in the order of the items that sample. RESOURCE_EXHAUSTED before
  // anything is computed when the cells do not suffice; CANCELLED after Interrupt (sequences as before).
  virtual absl::StatusOr<std::vector<Sampled>> Step(std::span<const StepItem> items) = 0;

  // Teacher forcing: feeds `tokens` at the end of the sequence in fixed batches (at least 64 tokens where there are as
  // many) and returns for each i the negative log-probability of targets[i] after tokens[i]. Adds tokens.size() cells.
  virtual absl::StatusOr<std::vector<float>> Score(SeqId seq, std::span<const Token> tokens,
                                                   std::span<const Token> targets) = 0;

  // The cells of `layers` over `range`, copied out, in position order.
  virtual absl::StatusOr<KvBlock> Export(SeqId seq, TokenRange range, const std::vector<int>& layers) = 0;
  // Appends cells to a sequence: block.range.begin must be its length and block.layers all layers. The prefix is not
  // touched, so the time depends on the block alone.
  virtual absl::Status Append(SeqId seq, const KvBlock& block) = 0;

  // Makes a running Step or Score end soon with CANCELLED; when none is running, the next one. An interrupt ends one call.
  virtual void Interrupt() = 0;
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_ENGINE_ENGINE_H_

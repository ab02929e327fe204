// Draws tokens from logits: a pure function of (parameters, history, logits).
#ifndef RISKKV_COMMON_ENGINE_LLAMA_SAMPLER_H_
#define RISKKV_COMMON_ENGINE_LLAMA_SAMPLER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "llama.h"

namespace riskkv {

// Not thread-safe, except for CheckGrammar.
class LlamaSampler {
 public:
  explicit LlamaSampler(const llama_vocab* vocab);

  // INVALID_ARGUMENT when the grammar (GBNF, root rule "root") does not parse. The empty grammar is fine.
  absl::Status CheckGrammar(const std::string& grammar) const;

  // Draws the token after item.history from `logits` [n_vocab]. INVALID_ARGUMENT when the history does not
  // fit the grammar, INTERNAL when the logits are not numbers.
  absl::StatusOr<Sampled> Draw(const float* logits, const StepItem& item);
  // -log softmax(logits)[target]. Not a number when the logits are none.
  float NegativeLogProb(const float* logits, Token target) const;
  // Drops what was remembered of a sequence's grammar.
  void Forget(SeqId seq) { grammars_.erase(seq); }

 private:
  struct Free {
    void operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }
  };
  using SamplerPtr = std::unique_ptr<llama_sampler, Free>;
  // A grammar after the tokens in `accepted`. Only a cache: replaying gives the same.
  struct GrammarState {
    std::string grammar;
    std::vector<Token> accepted;
    SamplerPtr sampler;
  };

  // The grammar of an item after its output tokens.
  absl::StatusOr<llama_sampler*> ReplayGrammar(const StepItem& item);
  absl::StatusOr<Token> Choose(const float* logits, Token best, const StepItem& item);
  absl::StatusOr<Token> ChooseWithGrammar(llama_sampler* grammar, const StepItem& item);
  // Fills candidates_ from the logits with penalties applied, without end tokens where they are forbidden.
  void FillCandidates(const float* logits, const StepItem& item);
  // Removes the candidates the grammar rejects.
  absl::Status ApplyGrammar(llama_sampler* grammar);
  // The drawn one of candidates_ (left as they are); `attempt` tells apart two draws for the same token.
  Token Pick(const StepItem& item, int attempt);
  void FillReport(const float* logits, int n_logprobs, Sampled& out) const;

  const llama_vocab* const vocab_;
  const int n_vocab_;
  std::vector<bool> ends_;  // [n_vocab] end-of-generation tokens
  std::vector<llama_token_data> candidates_;
  std::vector<llama_token_data> scratch_;
  std::map<SeqId, GrammarState> grammars_;
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_ENGINE_LLAMA_SAMPLER_H_

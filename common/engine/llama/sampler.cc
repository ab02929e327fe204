#include "common/engine/llama/sampler.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>
#include <unordered_map>

#include "common/base/status.h"
#include "common/engine/checks.h"
#include "common/engine/llama/log.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

// Deeper than any grammar in use; llama.cpp's parser recurses once a level.
constexpr int kMaxGrammarNesting = 64;

// Best, second best and the log of the normaliser of one row of logits.
struct RowStats {
  Token best = 0;
  float best_logit = -INFINITY;
  float second_logit = -INFINITY;
  double log_sum = 0.0;
};

double LogSumExp(const float* logits, int n, float max) {
  double sum = 0.0;
  for (int i = 0; i < n; ++i) sum += std::exp(logits[i] - max);
  return static_cast<double>(max) + std::log(sum);
}

RowStats Summarise(const float* logits, int n) {
  RowStats s;
  for (int i = 0; i < n; ++i) {
    if (logits[i] > s.best_logit) {
      s.second_logit = s.best_logit;
      s.best_logit = logits[i];
      s.best = i;
    } else if (logits[i] > s.second_logit) {
      s.second_logit = logits[i];
    }
  }
  s.log_sum = LogSumExp(logits, n, s.best_logit);
  return s;
}

int Nesting(const std::string& grammar) {
  int depth = 0;
  int deepest = 0;
  for (char c : grammar) {
    if (c == '(') deepest = std::max(deepest, ++depth);
    if (c == ')') --depth;
  }
  return deepest;
}

absl::Status BadHistory(SeqId seq, std::string_view why) {
  return absl::InvalidArgumentError(
      fmt::format("sequence {}: the output does not fit the grammar: {}", seq, why));
}

}  // namespace

LlamaSampler::LlamaSampler(const llama_vocab* vocab) : vocab_(vocab), n_vocab_(llama_vocab_n_tokens(vocab)) {
  ends_.resize(static_cast<std::size_t>(n_vocab_));
  for (int t = 0; t < n_vocab_; ++t) ends_[static_cast<std::size_t>(t)] = llama_vocab_is_eog(vocab, t);
}

absl::Status LlamaSampler::CheckGrammar(const std::string& grammar) const {
  if (grammar.empty()) return absl::OkStatus();
  if (Nesting(grammar) > kMaxGrammarNesting) {
    return absl::InvalidArgumentError(
        fmt::format("sampling.grammar nests more than {} levels deep", kMaxGrammarNesting));
  }
  LlamaErrorScope errors;
  try {
    SamplerPtr sampler(llama_sampler_init_grammar(vocab_, grammar.c_str(), "root"));
    if (sampler != nullptr) return absl::OkStatus();
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(fmt::format("sampling.grammar: {}", e.what()));
  }
  return absl::InvalidArgumentError(
      fmt::format("sampling.grammar does not parse: {}", errors.Text("no root rule?")));
}

absl::StatusOr<Sampled> LlamaSampler::Draw(const float* logits, const StepItem& item) {
  const RowStats stats = Summarise(logits, n_vocab_);
  if (!std::isfinite(stats.log_sum)) {
    return absl::InternalError(fmt::format("sequence {}: the logits are not numbers", item.seq));
  }
  Sampled out;
  ASSIGN_OR_RETURN(out.token, Choose(logits, stats.best, item));
  out.logprob = static_cast<float>(logits[out.token] - stats.log_sum);
  out.margin = stats.best_logit - stats.second_logit;
  out.end_of_generation = ends_[static_cast<std::size_t>(out.token)];
  FillReport(logits, item.sampling->n_logprobs, out);
  for (auto& [token, logprob] : out.top) logprob = static_cast<float>(logits[token] - stats.log_sum);
  return out;
}

float LlamaSampler::NegativeLogProb(const float* logits, Token target) const {
  const float max = *std::max_element(logits, logits + n_vocab_);
  return static_cast<float>(LogSumExp(logits, n_vocab_, max) - logits[target]);
}

absl::StatusOr<Token> LlamaSampler::Choose(const float* logits, Token best, const StepItem& item) {
  const SamplingParams& p = *item.sampling;
  const bool best_allowed = !item.forbid_end || !ends_[static_cast<std::size_t>(best)];
  if (p.temperature == 0 && p.grammar.empty() && !HasPenalties(p) && best_allowed) return best;
  FillCandidates(logits, item);
  if (p.grammar.empty()) return Pick(item, 0);
  ASSIGN_OR_RETURN(llama_sampler * grammar, ReplayGrammar(item));
  return ChooseWithGrammar(grammar, item);
}

// A draw the grammar accepts is kept; otherwise a second one is made among what it accepts. That is the same
// distribution as constraining first (the draws are independent), and spares the grammar the whole vocabulary
// most of the time.
absl::StatusOr<Token> LlamaSampler::ChooseWithGrammar(llama_sampler* grammar, const StepItem& item) {
  const std::vector<llama_token_data> all = candidates_;
  const Token first = Pick(item, 0);
  candidates_.assign(1, {first, 0.0f, 0.0f});
  RETURN_IF_ERROR(ApplyGrammar(grammar));
  if (!candidates_.empty()) return first;
  candidates_ = all;
  RETURN_IF_ERROR(ApplyGrammar(grammar));
  if (!candidates_.empty()) return Pick(item, 1);
  // Nothing but the end fits (and the end was forbidden), or nothing at all: the output is complete.
  const Token end = llama_vocab_eos(vocab_);
  if (end < 0) return absl::InternalError(fmt::format("sequence {}: no token fits the grammar", item.seq));
  return end;
}

void LlamaSampler::FillCandidates(const float* logits, const StepItem& item) {
  candidates_.resize(static_cast<std::size_t>(n_vocab_));
  for (int t = 0; t < n_vocab_; ++t) candidates_[static_cast<std::size_t>(t)] = {t, logits[t], 0.0f};
  const SamplingParams& p = *item.sampling;
  if (HasPenalties(p)) {
    // llama.cpp's arithmetic, on the tokens of the window only (its sampler looks every token of the
    // vocabulary up).
    std::unordered_map<Token, int> counts;
    const std::size_t n = std::min(item.history.size(), static_cast<std::size_t>(p.penalty_last_n));
    for (Token t : item.history.last(n)) {
      if (t >= 0 && t < n_vocab_) ++counts[t];
    }
    for (const auto& [token, count] : counts) {
      float& logit = candidates_[static_cast<std::size_t>(token)].logit;
      logit = logit <= 0 ? logit * p.repeat_penalty : logit / p.repeat_penalty;
      logit -= static_cast<float>(count) * p.frequency_penalty + p.presence_penalty;
    }
  }
  if (item.forbid_end) {
    std::erase_if(candidates_,
                  [this](const llama_token_data& c) { return ends_[static_cast<std::size_t>(c.id)]; });
  }
}

absl::Status LlamaSampler::ApplyGrammar(llama_sampler* grammar) {
  llama_token_data_array array = {candidates_.data(), candidates_.size(), -1, false};
  try {
    llama_sampler_apply(grammar, &array);
  } catch (const std::exception& e) {
    return absl::InternalError(fmt::format("grammar: {}", e.what()));
  }
  // Removed, not left at minus infinity: the draw below may take the first candidate whatever its weight.
  std::erase_if(candidates_, [](const llama_token_data& c) { return c.logit == -INFINITY; });
  return absl::OkStatus();
}

Token LlamaSampler::Pick(const StepItem& item, int attempt) {
  const SamplingParams& p = *item.sampling;
  if (p.temperature == 0) {
    auto better = [](const llama_token_data& a, const llama_token_data& b) { return a.logit < b.logit; };
    return std::max_element(candidates_.begin(), candidates_.end(), better)->id;
  }
  uint64_t seed = MixSeed(p.seed, item.history.size());
  if (attempt > 0) seed = MixSeed(seed, static_cast<uint64_t>(attempt));
  uint32_t seed32 = static_cast<uint32_t>(seed >> 32);
  if (seed32 == LLAMA_DEFAULT_SEED) seed32 = 0;  // llama.cpp would take the clock
  SamplerPtr chain(llama_sampler_chain_init({/*no_perf=*/true}));
  if (p.top_k > 0) llama_sampler_chain_add(chain.get(), llama_sampler_init_top_k(p.top_k));
  if (p.top_p < 1) llama_sampler_chain_add(chain.get(), llama_sampler_init_top_p(p.top_p, 1));
  if (p.min_p > 0) llama_sampler_chain_add(chain.get(), llama_sampler_init_min_p(p.min_p, 1));
  llama_sampler_chain_add(chain.get(), llama_sampler_init_temp(p.temperature));
  llama_sampler_chain_add(chain.get(), llama_sampler_init_dist(seed32));
  scratch_ = candidates_;
  llama_token_data_array array = {scratch_.data(), scratch_.size(), -1, false};
  llama_sampler_apply(chain.get(), &array);
  const bool drawn = array.selected >= 0 && static_cast<std::size_t>(array.selected) < array.size;
  return array.data[drawn ? array.selected : 0].id;
}

absl::StatusOr<llama_sampler*> LlamaSampler::ReplayGrammar(const StepItem& item) {
  const std::span<const Token> output = item.history.subspan(static_cast<std::size_t>(item.n_prompt));
  GrammarState& state = grammars_[item.seq];
  const bool extends = state.sampler != nullptr && state.grammar == item.sampling->grammar &&
                       state.accepted.size() <= output.size() &&
                       std::equal(state.accepted.begin(), state.accepted.end(), output.begin());
  if (!extends) {
    RETURN_IF_ERROR(CheckGrammar(item.sampling->grammar));
    state.grammar = item.sampling->grammar;
    state.accepted.clear();
    state.sampler.reset(llama_sampler_init_grammar(vocab_, state.grammar.c_str(), "root"));
    if (state.sampler == nullptr) return absl::InvalidArgumentError("sampling.grammar does not parse");
  }
  while (state.accepted.size() < output.size()) {
    const Token token = output[state.accepted.size()];
    // llama.cpp aborts the process on an end token the grammar does not allow.
    if (ends_[static_cast<std::size_t>(token)]) return BadHistory(item.seq, "it goes on after its end");
    try {
      llama_sampler_accept(state.sampler.get(), token);
    } catch (const std::exception& e) {
      grammars_.erase(item.seq);
      return BadHistory(item.seq, e.what());
    }
    state.accepted.push_back(token);
  }
  return state.sampler.get();
}

void LlamaSampler::FillReport(const float* logits, int n_logprobs, Sampled& out) const {
  if (n_logprobs == 0) return;
  std::vector<Token> order(static_cast<std::size_t>(n_vocab_));
  std::iota(order.begin(), order.end(), 0);
  auto before = [logits](Token a, Token b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  const auto n = std::min<std::ptrdiff_t>(n_logprobs, n_vocab_);
  std::partial_sort(order.begin(), order.begin() + n, order.end(), before);
  for (auto it = order.begin(); it != order.begin() + n; ++it) out.top.emplace_back(*it, 0.0f);
}

}  // namespace riskkv

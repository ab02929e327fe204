// The fake engine under observation: says who produced each token (as its log-probability, which travels in the request log), stands
// still with its process, and keeps a trace.
#ifndef RISKKV_TESTS_FAULTS_TRACING_ENGINE_H_
#define RISKKV_TESTS_FAULTS_TRACING_ENGINE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/engine/fake/fake_engine.h"
#include "tests/faults/process.h"
#include "tests/faults/trace.h"

namespace riskkv::faults {

inline float ProducerLogprob(int producer) { return -static_cast<float>(producer); }
inline int ProducerOf(float logprob) { return static_cast<int>(-logprob); }

class TracingEngine : public Engine {
 public:
  TracingEngine(std::unique_ptr<FakeEngine> engine, ProcessPtr process, Trace* trace)
      : engine_(std::move(engine)), process_(std::move(process)), trace_(trace) {}

  const ModelFacts& facts() const override { return engine_->facts(); }
  const EngineLimits& limits() const override { return engine_->limits(); }
  absl::Status CheckSampling(const SamplingParams& params) const override { return engine_->CheckSampling(params); }
  absl::StatusOr<std::vector<Token>> Tokenize(std::string_view text, bool add_special, bool parse_special) const override {
    return engine_->Tokenize(text, add_special, parse_special);
  }
  std::string TokenText(Token token, bool special) const override { return engine_->TokenText(token, special); }
  absl::StatusOr<std::string> ChatPrompt(std::string_view system, std::string_view user) const override {
    return engine_->ChatPrompt(system, user);
  }
  absl::StatusOr<SeqId> OpenSequence() override { return engine_->OpenSequence(); }
  void CloseSequence(SeqId seq) override { engine_->CloseSequence(seq); }
  int64_t Length(SeqId seq) const override { return engine_->Length(seq); }
  int64_t CellsUsed() const override { return engine_->CellsUsed(); }
  absl::Status Truncate(SeqId seq, int64_t n) override { return engine_->Truncate(seq, n); }
  absl::StatusOr<std::vector<float>> Score(SeqId seq, std::span<const Token> tokens, std::span<const Token> targets) override {
    return engine_->Score(seq, tokens, targets);
  }
  absl::StatusOr<KvBlock> Export(SeqId seq, TokenRange range, const std::vector<int>& layers) override {
    process_->Stand();
    return engine_->Export(seq, range, layers);
  }
  absl::Status Append(SeqId seq, const KvBlock& block) override {
    process_->Stand();
    return engine_->Append(seq, block);
  }
  void Interrupt() override { engine_->Interrupt(); }

  absl::StatusOr<std::vector<Sampled>> Step(std::span<const StepItem> items) override {
    process_->Stand();
    auto sampled = engine_->Step(items);
    if (!sampled.ok()) return sampled;
    std::size_t next = 0;
    for (const StepItem& item : items) {
      if (!item.sample) continue;
      (*sampled)[next++].logprob = ProducerLogprob(process_->number);
      if (!process_->dead) trace_->Sampled(process_->number, static_cast<int64_t>(item.history.size()) - item.n_prompt, item.n_prompt);
    }
    return sampled;
  }

 private:
  const std::unique_ptr<FakeEngine> engine_;
  const ProcessPtr process_;
  Trace* const trace_;
};

}  // namespace riskkv::faults

#endif  // RISKKV_TESTS_FAULTS_TRACING_ENGINE_H_

// An engine that says how long it computed: the floor that a calibration's time is compared with.
#ifndef RISKKV_SERVICES_CALIBRATE_TIMED_ENGINE_H_
#define RISKKV_SERVICES_CALIBRATE_TIMED_ENGINE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/engine/engine.h"

namespace riskkv::calibrate {

// Passes every call on. Time and tokens are of Step and Score, what no program around the engine can save.
class TimedEngine : public Engine {
 public:
  TimedEngine(Engine& engine, const Clock& clock) : engine_(engine), clock_(clock) {}

  double seconds() const { return absl::ToDoubleSeconds(spent_); }
  int64_t tokens() const { return tokens_; }

  const ModelFacts& facts() const override { return engine_.facts(); }
  const EngineLimits& limits() const override { return engine_.limits(); }
  absl::Status CheckSampling(const SamplingParams& params) const override { return engine_.CheckSampling(params); }
  absl::StatusOr<std::vector<Token>> Tokenize(std::string_view text, bool add_special, bool parse_special) const override {
    return engine_.Tokenize(text, add_special, parse_special);
  }
  std::string TokenText(Token token, bool special) const override { return engine_.TokenText(token, special); }
  absl::StatusOr<std::string> ChatPrompt(std::string_view system, std::string_view user) const override {
    return engine_.ChatPrompt(system, user);
  }
  absl::StatusOr<SeqId> OpenSequence() override { return engine_.OpenSequence(); }
  void CloseSequence(SeqId seq) override { engine_.CloseSequence(seq); }
  int64_t Length(SeqId seq) const override { return engine_.Length(seq); }
  int64_t CellsUsed() const override { return engine_.CellsUsed(); }
  absl::Status Truncate(SeqId seq, int64_t n) override { return engine_.Truncate(seq, n); }
  absl::StatusOr<std::vector<Sampled>> Step(std::span<const StepItem> items) override {
    const absl::Duration start = clock_.Monotonic();
    auto result = engine_.Step(items);
    spent_ += clock_.Monotonic() - start;
    for (const StepItem& item : items) tokens_ += static_cast<int64_t>(item.tokens.size());
    return result;
  }
  absl::StatusOr<std::vector<float>> Score(SeqId seq, std::span<const Token> tokens,
                                           std::span<const Token> targets) override {
    const absl::Duration start = clock_.Monotonic();
    auto result = engine_.Score(seq, tokens, targets);
    spent_ += clock_.Monotonic() - start;
    tokens_ += static_cast<int64_t>(tokens.size());
    return result;
  }
  absl::StatusOr<KvBlock> Export(SeqId seq, TokenRange range, const std::vector<int>& layers) override {
    return engine_.Export(seq, range, layers);
  }
  absl::Status Append(SeqId seq, const KvBlock& block) override { return engine_.Append(seq, block); }
  void Interrupt() override { engine_.Interrupt(); }

 private:
  Engine& engine_;
  const Clock& clock_;
  absl::Duration spent_;
  int64_t tokens_ = 0;
};

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_TIMED_ENGINE_H_

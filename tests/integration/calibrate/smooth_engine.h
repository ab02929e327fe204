// The fake engine with an NLL that depends smoothly on its cells, so that an almost exact rebuild costs
// almost nothing.
#ifndef RISKKV_TESTS_INTEGRATION_CALIBRATE_SMOOTH_ENGINE_H_
#define RISKKV_TESTS_INTEGRATION_CALIBRATE_SMOOTH_ENGINE_H_

#include <cmath>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/engine/fake/fake_engine.h"
#include "kernels/fp16.h"

namespace riskkv::testing {

// The fake's cells are integers: what is off them is the rebuild's doing. NLL = 2 + penalty * mean |cell -
// nearest integer|.
class SmoothEngine : public Engine {
 public:
  explicit SmoothEngine(std::unique_ptr<FakeEngine> fake, double penalty)
      : fake_(std::move(fake)), penalty_(penalty) {}

  const ModelFacts& facts() const override { return fake_->facts(); }
  const EngineLimits& limits() const override { return fake_->limits(); }
  absl::StatusOr<std::vector<Token>> Tokenize(std::string_view text, bool add_special,
                                              bool parse_special) const override {
    return fake_->Tokenize(text, add_special, parse_special);
  }
  std::string TokenText(Token token, bool special) const override { return fake_->TokenText(token, special); }
  absl::StatusOr<std::string> ChatPrompt(std::string_view system, std::string_view user) const override {
    return fake_->ChatPrompt(system, user);
  }
  absl::StatusOr<SeqId> OpenSequence() override { return fake_->OpenSequence(); }
  void CloseSequence(SeqId seq) override { fake_->CloseSequence(seq); }
  int64_t Length(SeqId seq) const override { return fake_->Length(seq); }
  int64_t CellsUsed() const override { return fake_->CellsUsed(); }
  absl::Status Truncate(SeqId seq, int64_t n) override { return fake_->Truncate(seq, n); }
  absl::StatusOr<std::vector<Sampled>> Step(std::span<const StepItem> items) override {
    return fake_->Step(items);
  }
  absl::StatusOr<std::vector<float>> Score(SeqId seq, std::span<const Token> tokens,
                                           std::span<const Token> targets) override {
    ++scored_;
    ASSIGN_OR_RETURN(const KvBlock cells,
                     Export(seq, {0, Length(seq)}, AllLayers(facts().fingerprint.layout)));
    double off = 0;
    for (uint16_t v : cells.data) {
      const double x = kernels::HalfToFloat(v);
      off += std::abs(x - std::round(x)) / static_cast<double>(cells.data.size());
    }
    return std::vector<float>(targets.size(), static_cast<float>(2.0 + penalty_ * off));
  }
  absl::StatusOr<KvBlock> Export(SeqId seq, TokenRange range, const std::vector<int>& layers) override {
    return fake_->Export(seq, range, layers);
  }
  absl::Status Append(SeqId seq, const KvBlock& block) override { return fake_->Append(seq, block); }
  void Interrupt() override { fake_->Interrupt(); }
  // Calls of Score and of Step: what a run that goes on must not repeat.
  int scored() const { return scored_; }
  int64_t steps() const { return fake_->steps(); }

 private:
  std::unique_ptr<FakeEngine> fake_;
  const double penalty_;
  int scored_ = 0;
};

}  // namespace riskkv::testing

#endif  // RISKKV_TESTS_INTEGRATION_CALIBRATE_SMOOTH_ENGINE_H_

#include "services/worker/core/request_costs.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "common/base/status.h"

namespace riskkv::worker {
namespace {

// The share of busy time is over about this long.
constexpr double kBusyWindowSeconds = 5.0;
constexpr int kWarmUpDecodes = 8;
constexpr int kColdTokens = 8;

}  // namespace

void FadingFit::Add(double x1, double x2, double y) {
  for (double* v : {&a11_, &a12_, &a22_, &b1_, &b2_}) *v *= keep_;
  a11_ += x1 * x1;
  a12_ += x1 * x2;
  a22_ += x2 * x2;
  b1_ += x1 * y;
  b2_ += x2 * y;
  Solve();
}

void FadingFit::Solve() {
  const double det = a11_ * a22_ - a12_ * a12_;
  // Samples that are all alike cannot tell the two terms apart: all of it is put on the first.
  if (det > 1e-6 * a11_ * a22_) {
    c1_ = (b1_ * a22_ - b2_ * a12_) / det;
    c2_ = (b2_ * a11_ - b1_ * a12_) / det;
    if (c1_ >= 0 && c2_ >= 0) return;
    if (c1_ < 0 && a22_ > 0) {
      c1_ = 0;
      c2_ = std::max(0.0, b2_ / a22_);
      return;
    }
  }
  c1_ = a11_ > 0 ? std::max(0.0, b1_ / a11_) : 0;
  c2_ = 0;
}

void FadingMean::Add(double value) {
  sum_ = sum_ * keep_ + value;
  weight_ = weight_ * keep_ + 1;
}

void CostMeter::Prefill(int64_t past, int64_t n, absl::Duration took) {
  if (n <= 0 || took <= absl::ZeroDuration()) return;
  const double end = static_cast<double>(past + n), begin = static_cast<double>(past);
  prefill_.Add(static_cast<double>(n), end * end - begin * begin, absl::ToDoubleSeconds(took));
}

void CostMeter::Decode(int64_t context, absl::Duration took) {
  if (took <= absl::ZeroDuration()) return;
  decode_.Add(1.0, static_cast<double>(context), absl::ToDoubleSeconds(took));
}

void CostMeter::Export(int64_t n, double share, absl::Duration took) {
  if (n <= 0 || share <= 0 || took <= absl::ZeroDuration()) return;
  export_.Add(absl::ToDoubleSeconds(took) / (static_cast<double>(n) * share));
}

void CostMeter::Append(int64_t n, absl::Duration took) {
  if (n <= 0 || took <= absl::ZeroDuration()) return;
  append_.Add(absl::ToDoubleSeconds(took) / static_cast<double>(n));
}

void CostMeter::Turn(absl::Duration busy, absl::Duration idle) {
  const double total = absl::ToDoubleSeconds(busy + idle);
  if (total <= 0) return;
  const double fade = std::exp(-total / kBusyWindowSeconds);
  busy_ = busy_ * fade + absl::ToDoubleSeconds(busy) / total * (1 - fade);
}

namespace {

// One sequence of made-up tokens on an engine that nobody uses yet.
class Trial {
 public:
  Trial(Engine& engine, const Clock& clock, CostMeter& costs, SeqId seq) : engine_(engine), clock_(clock), costs_(costs), seq_(seq) {}

  // Computes n tokens at the end of the sequence; the first time nothing is recorded: caches are cold.
  absl::Status Step(int n, bool record) {
    const int64_t past = static_cast<int64_t>(history_.size());
    Extend(past + n);
    const std::span<const Token> all(history_);
    StepItem item{seq_, past, all.subspan(static_cast<std::size_t>(past)), n == 1, &greedy_, all, past, false};
    const absl::Duration begin = clock_.Monotonic();
    RETURN_IF_ERROR(engine_.Step({&item, 1}).status());
    const absl::Duration took = clock_.Monotonic() - begin;
    if (record && n == 1) costs_.Decode(past + 1, took);
    if (record && n > 1) costs_.Prefill(past, n, took);
    return absl::OkStatus();
  }
  absl::Status Measure(int chunk) {
    RETURN_IF_ERROR(Step(chunk, true));
    for (int i = 0; i < kWarmUpDecodes; ++i) RETURN_IF_ERROR(Step(1, true));
    return absl::OkStatus();
  }
  // Copies what is there behind itself until `context` cells are there: as long to attend to as computed ones, and quickly made.
  absl::Status Lengthen(int64_t context) {
    const KvLayout& layout = engine_.facts().fingerprint.layout;
    absl::Duration begin = clock_.Monotonic();
    ASSIGN_OR_RETURN(KvBlock block, engine_.Export(seq_, {0, engine_.Length(seq_)}, AllLayers(layout)));
    const int64_t n = block.range.size();
    costs_.Export(n, 1.0, clock_.Monotonic() - begin);
    for (int64_t at = engine_.Length(seq_); at + n <= context; at += n) {
      block.range = {at, at + n};
      begin = clock_.Monotonic();
      RETURN_IF_ERROR(engine_.Append(seq_, block));
      costs_.Append(n, clock_.Monotonic() - begin);
      Extend(at + n);
    }
    return absl::OkStatus();
  }

 private:
  void Extend(int64_t n) {
    // Any tokens cost the same; these are in every vocabulary.
    while (static_cast<int64_t>(history_.size()) < n) history_.push_back(static_cast<Token>(history_.size() % 200));
  }

  Engine& engine_;
  const Clock& clock_;
  CostMeter& costs_;
  const SeqId seq_;
  const SamplingParams greedy_;
  std::vector<Token> history_;
};

}  // namespace

absl::Status WarmUp(Engine& engine, const Clock& clock, int64_t context, int chunk, CostMeter& costs) {
  const int64_t spare = 2 * chunk + 2 * kWarmUpDecodes;
  const int64_t limit = std::min<int64_t>(engine.limits().n_cells, engine.facts().n_ctx_train);
  context = std::min(context, limit - spare);
  if (context < spare) return absl::OkStatus();  // too small a cache to tell anything
  ASSIGN_OR_RETURN(const SeqId seq, engine.OpenSequence());
  absl::Cleanup close = [&] { engine.CloseSequence(seq); };
  Trial trial(engine, clock, costs, seq);
  RETURN_IF_ERROR(trial.Step(kColdTokens, /*record=*/false));
  RETURN_IF_ERROR(trial.Measure(chunk));
  RETURN_IF_ERROR(trial.Lengthen(context));
  return trial.Measure(chunk);
}

}  // namespace riskkv::worker

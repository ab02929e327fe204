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

absl::Status WarmUp(Engine& engine, const Clock& clock, int tokens, int chunk, CostMeter& costs) {
  ASSIGN_OR_RETURN(const SeqId seq, engine.OpenSequence());
  absl::Cleanup close = [&] { engine.CloseSequence(seq); };
  const SamplingParams greedy;
  std::vector<Token> history;
  auto step = [&](int n) -> absl::Status {
    const int64_t past = static_cast<int64_t>(history.size());
    // Any tokens cost the same; these are in every vocabulary.
    for (int i = 0; i < n; ++i) history.push_back(static_cast<Token>((past + i) % std::min(engine.facts().n_vocab, 250)));
    const std::span<const Token> all(history);
    StepItem item{seq, past, all.subspan(static_cast<std::size_t>(past)), n == 1, &greedy, all, past, false};
    const absl::Duration begin = clock.Monotonic();
    RETURN_IF_ERROR(engine.Step({&item, 1}).status());
    const absl::Duration took = clock.Monotonic() - begin;
    n == 1 ? costs.Decode(past + 1, took) : costs.Prefill(past, n, took);
    return absl::OkStatus();
  };
  for (int done = 0; done + 2 <= tokens;) {
    const int n = std::min(chunk, tokens - done);
    RETURN_IF_ERROR(step(n));
    done += n;
  }
  for (int i = 0; i < kWarmUpDecodes; ++i) RETURN_IF_ERROR(step(1));

  const KvLayout& layout = engine.facts().fingerprint.layout;
  const TokenRange range{0, static_cast<int64_t>(history.size())};
  absl::Duration begin = clock.Monotonic();
  ASSIGN_OR_RETURN(const KvBlock block, engine.Export(seq, range, AllLayers(layout)));
  costs.Export(range.size(), 1.0, clock.Monotonic() - begin);
  RETURN_IF_ERROR(engine.Truncate(seq, 0));
  begin = clock.Monotonic();
  RETURN_IF_ERROR(engine.Append(seq, block));
  costs.Append(range.size(), clock.Monotonic() - begin);
  return absl::OkStatus();
}

}  // namespace riskkv::worker

// What computing costs here, kept current from what the loop really did (design.md, 7).
#ifndef RISKKV_SERVICES_WORKER_CORE_REQUEST_COSTS_H_
#define RISKKV_SERVICES_WORKER_CORE_REQUEST_COSTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/engine/engine.h"

namespace riskkv::worker {

// Least squares for y = c1*x1 + c2*x2 with both coefficients at or above zero; older samples fade.
class FadingFit {
 public:
  // A sample's weight falls by `keep` with each new one.
  explicit FadingFit(double keep) : keep_(keep) {}
  void Add(double x1, double x2, double y);
  double c1() const { return c1_; }
  double c2() const { return c2_; }

 private:
  void Solve();
  const double keep_;
  double a11_ = 0, a12_ = 0, a22_ = 0, b1_ = 0, b2_ = 0;
  double c1_ = 0, c2_ = 0;
};

class FadingMean {
 public:
  explicit FadingMean(double keep) : keep_(keep) {}
  void Add(double value);
  double value() const { return weight_ > 0 ? sum_ / weight_ : 0; }

 private:
  const double keep_;
  double sum_ = 0, weight_ = 0;
};

// Not thread-safe: the manager guards it. Durations of zero (a fake clock) are no samples.
class CostMeter {
 public:
  // `n` prompt tokens were computed after `past` ones, alone in their step.
  void Prefill(int64_t past, int64_t n, absl::Duration took);
  // One token each for requests whose contexts add up to `context`, alone in their step.
  void Decode(int64_t context, absl::Duration took);
  // `share` of the layers of `n` tokens.
  void Export(int64_t n, double share, absl::Duration took);
  void Append(int64_t n, absl::Duration took);
  // One turn of the loop: it computed for `busy` and waited for `idle`.
  void Turn(absl::Duration busy, absl::Duration idle);

  double prefill_p1() const { return prefill_.c1(); }
  double prefill_p2() const { return prefill_.c2(); }
  double decode_s() const { return decode_.c1(); }
  double decode_s_per_token() const { return decode_.c2(); }
  double export_s() const { return export_.value(); }
  double append_s() const { return append_.value(); }
  double busy() const { return busy_; }

 private:
  FadingFit prefill_{0.99};
  FadingFit decode_{0.998};
  FadingMean export_{0.95};
  FadingMean append_{0.95};
  double busy_ = 0;
};

// First numbers, before any request came: computes and copies a little on an empty context and on one of `context` tokens (as far as
// the cells go), since the difference is what the quadratic term comes from. Leaves the engine empty. Call it before the loop starts.
absl::Status WarmUp(Engine& engine, const Clock& clock, int64_t context, int chunk, CostMeter& costs);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_REQUEST_COSTS_H_

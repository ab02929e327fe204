#include "common/cost/corrections.h"

#include <algorithm>
#include <cmath>

namespace riskkv::cost {
namespace {

constexpr double kCorrectionWeight = 0.25;
constexpr double kLimit = 5;  // one odd move must not make a mode look free or hopeless

}  // namespace

void Corrections::Observe(Mode mode, double predicted, double real) {
  if (!(predicted > 0) || !(real > 0) || !std::isfinite(predicted) || !std::isfinite(real)) return;
  MutexLock lock(mu_);
  double& factor = factors_.try_emplace(mode, 1.0).first->second;
  double sample = std::clamp(factor * real / predicted, 1 / kLimit, kLimit);
  // Ratios average in the logarithm: twice too long and twice too short cancel.
  factor = std::exp((1 - kCorrectionWeight) * std::log(factor) + kCorrectionWeight * std::log(sample));
}

double Corrections::Factor(Mode mode) const {
  MutexLock lock(mu_);
  auto it = factors_.find(mode);
  return it == factors_.end() ? 1.0 : it->second;
}

std::map<Mode, double> Corrections::All() const {
  MutexLock lock(mu_);
  return factors_;
}

}  // namespace riskkv::cost

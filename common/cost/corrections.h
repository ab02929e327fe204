// What predictions turned out to be worth: a factor a mode, from predicted against real times.
#ifndef RISKKV_COMMON_COST_CORRECTIONS_H_
#define RISKKV_COMMON_COST_CORRECTIONS_H_

#include <map>

#include "common/base/mutex.h"
#include "common/migration/states.h"

namespace riskkv::cost {

// Thread-safe.
class Corrections {
 public:
  // `predicted` is the model's own, factor already applied; both in seconds.
  void Observe(Mode mode, double predicted, double real);
  // What to multiply the model's total by; 1 without experience. Between 1/5 and 5.
  double Factor(Mode mode) const;
  std::map<Mode, double> All() const;

 private:
  mutable Mutex mu_;
  std::map<Mode, double> factors_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv::cost

#endif  // RISKKV_COMMON_COST_CORRECTIONS_H_

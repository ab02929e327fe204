// A plan: what each way of moving a request would cost, from which inputs, and why the losers lost. Computed by common/cost.
#ifndef RISKKV_COMMON_MIGRATION_PLAN_H_
#define RISKKV_COMMON_MIGRATION_PLAN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/migration/states.h"

namespace riskkv {

// One alternative. Seconds and bytes; `terms` are the summands of total_seconds and pause_seconds by name.
struct ModeCost {
  Mode mode = Mode::kUnspecified;
  bool possible = false;
  std::string why_not;  // why it is impossible, or why it lost; empty for the chosen one
  double total_seconds = 0;
  double pause_seconds = 0;
  int64_t bytes = 0;
  std::map<std::string, double> terms;
};

struct Plan {
  Mode chosen = Mode::kStay;
  std::string why;
  std::vector<ModeCost> alternatives;
  std::map<std::string, double> inputs;
  std::string predictor_set;  // of the chosen mode where it is lossy, else of the one that would be used, possible or not
  std::string profile;
  bool set_absent = false;      // the destination must fetch the set first
  double moves_per_set = 0;     // how often the set was used
  double break_even_moves = 0;  // N*; 0 when the profile saves nothing
  std::string source;
  std::string destination;

  // nullptr when the mode was not considered.
  const ModeCost* Find(Mode mode) const {
    for (const ModeCost& cost : alternatives) {
      if (cost.mode == mode) return &cost;
    }
    return nullptr;
  }
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_MIGRATION_PLAN_H_

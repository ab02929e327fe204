// What a client's pause at a change of owner is made of, by context length: does it stay within what the protocol promises, and does it
// grow with the context? Arithmetic only.
#ifndef RISKKV_SERVICES_BENCH_PAUSE_REPORT_H_
#define RISKKV_SERVICES_BENCH_PAUSE_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace riskkv::bench {

// One move. Milliseconds, all of the same run; each duration is of one clock.
struct PauseSample {
  int64_t tokens = 0;     // of the request when it paused
  double pause = 0;       // the client's, between the last token of the old owner and the first of the new one
  double step = 0;        // the client's median time between tokens before the move
  double final_copy = 0;  // the source's: pause to PREPARED, with the last cells, FINAL and their round trips
  double commit = 0;      // the coordinator's: the durable compare-and-swap, with its fsync
};

// Medians over the moves of one length in one mode.
struct PauseRow {
  std::string mode;
  int64_t moves = 0;
  PauseSample median;
  double rest() const { return median.pause - median.step - median.final_copy - median.commit; }
  double allowed() const { return 1.5 * median.step + 10 + median.final_copy + median.commit; }
  double ratio() const { return median.pause / allowed(); }
};

// `samples` of one length in one mode, at least one.
PauseRow Summarise(std::string mode, const std::vector<PauseSample>& samples);

struct PauseReport {
  double rtt = 0;              // between the workers, milliseconds
  std::vector<PauseRow> rows;  // by mode, then by length
  // How much longer than at the mode's shortest length the longest pause is, beyond what a decode step grew; milliseconds.
  double Growth(const std::string& mode) const;
  bool Within() const;  // every ratio at most 1, and no mode grows by more than 10 ms
};

nlohmann::json ToJson(const PauseReport& report);

}  // namespace riskkv::bench

#endif  // RISKKV_SERVICES_BENCH_PAUSE_REPORT_H_

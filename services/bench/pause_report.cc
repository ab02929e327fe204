#include "services/bench/pause_report.h"

#include <algorithm>
#include <set>
#include <utility>

namespace riskkv::bench {
namespace {

constexpr double kNoiseMs = 10;  // as in the promise itself

template <typename T>
T MedianOf(const std::vector<PauseSample>& samples, T PauseSample::*field) {
  std::vector<T> values;
  for (const PauseSample& s : samples) values.push_back(s.*field);
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

PauseRow Summarise(std::string mode, const std::vector<PauseSample>& samples) {
  PauseRow row;
  row.mode = std::move(mode);
  row.moves = static_cast<int64_t>(samples.size());
  row.median.tokens = MedianOf(samples, &PauseSample::tokens);
  for (auto field : {&PauseSample::pause, &PauseSample::step, &PauseSample::final_copy, &PauseSample::commit}) {
    row.median.*field = MedianOf(samples, field);
  }
  return row;
}

double PauseReport::Growth(const std::string& mode) const {
  const PauseRow* shortest = nullptr;
  double growth = 0;
  for (const PauseRow& row : rows) {
    if (row.mode != mode) continue;
    if (shortest == nullptr || row.median.tokens < shortest->median.tokens) shortest = &row;
  }
  // A pause holds one step for certain and up to half of another.
  auto beyond = [](const PauseRow& row) { return row.median.pause - 1.5 * row.median.step; };
  for (const PauseRow& row : rows) {
    if (row.mode == mode) growth = std::max(growth, beyond(row) - beyond(*shortest));
  }
  return growth;
}

bool PauseReport::Within() const {
  return std::all_of(rows.begin(), rows.end(), [this](const PauseRow& r) { return r.ratio() <= 1 && Growth(r.mode) <= kNoiseMs; });
}

nlohmann::json ToJson(const PauseReport& report) {
  nlohmann::json rows = nlohmann::json::array(), growth = nlohmann::json::object();
  for (const PauseRow& row : report.rows) {
    rows.push_back({{"mode", row.mode},
                    {"tokens", row.median.tokens},
                    {"moves", row.moves},
                    {"pause_ms", row.median.pause},
                    {"decode_step_ms", row.median.step},
                    {"commit_ms", row.median.commit},
                    {"final_copy_ms", row.median.final_copy},
                    {"rest_ms", row.rest()},
                    {"allowed_ms", row.allowed()},
                    {"ratio", row.ratio()}});
    growth[row.mode] = report.Growth(row.mode);
  }
  return {{"rtt_ms", report.rtt}, {"rows", rows}, {"growth_beyond_steps_ms", growth}, {"within", report.Within()}};
}

}  // namespace riskkv::bench

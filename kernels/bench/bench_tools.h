// What the benches share: models, clocks, numbers.
#ifndef RISKKV_KERNELS_BENCH_BENCH_TOOLS_H_
#define RISKKV_KERNELS_BENCH_BENCH_TOOLS_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <random>
#include <vector>

#include "kernels/backend.h"

namespace riskkv::kernels::bench {

struct Model {
  const char* name;
  int n_head_kv, head_dim;
  RopePairing pairing;
};

// The best of many runs: the others met a busy core.
inline double BestSeconds(double budget, const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30, total = 0;
  run();
  for (int i = 0; i < 3 || total < budget; ++i) {
    const auto start = Clock::now();
    run();
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, took);
    total += took;
  }
  return best;
}

inline std::vector<float> Normal(std::size_t n, float scale) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace riskkv::kernels::bench

#endif  // RISKKV_KERNELS_BENCH_BENCH_TOOLS_H_

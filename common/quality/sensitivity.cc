#include "common/quality/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>

#include "common/base/status.h"
#include "common/quality/risk.h"
#include "kernels/fp16.h"

namespace riskkv {
namespace {

// One measurement: the planes of one unit and part.
struct PlaneGroup {
  std::vector<CachePlane> planes;
};

std::vector<PlaneGroup> PlaneGroups(const CodedPlan& plan) {
  std::vector<PlaneGroup> groups;
  for (const CodedUnit& unit : plan) {
    for (int part : {kPartK, kPartV}) {
      PlaneGroup group;
      for (const CachePlane& p : unit.planes) {
        if (p.part == part) group.planes.push_back(p);
      }
      if (!group.planes.empty()) groups.push_back(std::move(group));
    }
  }
  return groups;
}

// White noise is the same before and after RoPE, so cached keys serve.
KvBlock WithNoise(const KvBlock& exact, const PlaneGroup& group, const std::vector<float>& deviations,
                  const SensitivityOptions& options) {
  KvBlock cells = exact;
  const TokenRange range = RebuiltRange(options.ends, exact.range.size());
  std::mt19937_64 random(options.seed);
  std::normal_distribution<float> normal;
  for (const CachePlane& p : group.planes) {
    const float deviation = static_cast<float>(options.noise) * deviations[2 * static_cast<std::size_t>(p.layer) + p.part];
    uint16_t* rows = (p.part == kPartK ? cells.k(p.layer) : cells.v(p.layer));
    for (int64_t i = range.begin * exact.kv; i < range.end * exact.kv; ++i)
      rows[i] = kernels::FloatToHalf(kernels::HalfToFloat(rows[i]) + deviation * normal(random));
  }
  return cells;
}

}  // namespace

std::vector<double> ShrinkSensitivities(std::vector<double> changes, const SensitivityOptions& options) {
  constexpr double kLeastShare = 0.02;
  const double largest = changes.empty() ? 0 : *std::max_element(changes.begin(), changes.end());
  if (!(largest > 0)) return std::vector<double>(changes.size(), 1.0);
  double log_mean = 0;
  for (double& c : changes) {
    c = std::log(std::max(c, kLeastShare * largest));
    log_mean += c / static_cast<double>(changes.size());
  }
  const double bound = std::log(options.largest_ratio);
  for (double& c : changes) c = std::exp(std::clamp(options.trust * (c - log_mean), -bound, bound));
  return changes;
}

absl::StatusOr<std::vector<double>> MeasureSensitivity(Engine& engine, const WindowSet& windows, const CodedPlan& plan,
                                                       const std::vector<float>& deviations,
                                                       const SensitivityOptions& options, Progress& progress) {
  const std::vector<PlaneGroup> groups = PlaneGroups(plan);
  progress.Begin("sensitivity", static_cast<int>(windows.windows.size() * (groups.size() + 1)));
  const std::size_t cells = static_cast<std::size_t>(WindowScorer::HistoryCells(windows.shape));
  WindowScorer scorer(engine);
  std::vector<double> changes(groups.size());
  for (const Window& window : windows.windows) {
    ASSIGN_OR_RETURN(const KvBlock exact, scorer.Prefill(std::span<const Token>(window.tokens).first(cells)));
    ASSIGN_OR_RETURN(const std::vector<float> nll, scorer.Score(exact, window, windows.shape));
    for (std::size_t g = 0; g < groups.size(); ++g) {
      RETURN_IF_ERROR(progress.Check());
      ASSIGN_OR_RETURN(const std::vector<float> noisy,
                       scorer.Score(WithNoise(exact, groups[g], deviations, options), window, windows.shape));
      changes[g] += Mean(noisy) - Mean(nll);
      progress.Step();
    }
  }
  const std::vector<double> shrunk = ShrinkSensitivities(changes, options);
  std::vector<double> sensitivity(deviations.size(), 1.0);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const CachePlane& p : groups[g].planes) sensitivity[2 * static_cast<std::size_t>(p.layer) + p.part] = shrunk[g];
  }
  return sensitivity;
}

}  // namespace riskkv

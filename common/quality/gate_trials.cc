#include "common/quality/gate_trials.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "common/quality/random.h"

namespace riskkv {
namespace {

using WindowGroups = std::vector<std::vector<std::size_t>>;  // indices of windows, by article

// What one trial draws: window indices, each drawn article under a number of its own.
struct Draw {
  std::vector<int> article;
  std::vector<std::size_t> window;
};

// Windows by article, or each window alone where there is one article only.
WindowGroups UnitsOf(const std::vector<PairedDelta>& deltas) {
  std::map<int, std::vector<std::size_t>> by_article;
  for (std::size_t i = 0; i < deltas.size(); ++i) by_article[deltas[i].article].push_back(i);
  WindowGroups units;
  if (by_article.size() >= 2) {
    for (auto& [article, windows] : by_article) units.push_back(std::move(windows));
  } else {
    for (std::size_t i = 0; i < deltas.size(); ++i) units.push_back({i});
  }
  return units;
}

Draw DrawFrom(const WindowGroups& units, std::size_t from, std::size_t to, Random& random) {
  Draw draw;
  for (std::size_t i = from; i < to; ++i) {
    const std::vector<std::size_t>& windows = units[from + random.Below(to - from)];
    for (std::size_t w = 0; w < windows.size(); ++w) {
      draw.article.push_back(static_cast<int>(i));
      draw.window.push_back(windows[random.Below(windows.size())]);
    }
  }
  return draw;
}

RiskStats StatsOf(const Draw& draw, const std::vector<PairedDelta>& deltas, const BootstrapOptions& options) {
  std::vector<PairedDelta> drawn;
  for (std::size_t i = 0; i < draw.window.size(); ++i)
    drawn.push_back({draw.article[i], deltas[draw.window[i]].value});
  return Summarise(drawn, options);
}

double MeanOf(const std::vector<PairedDelta>& deltas) {
  double sum = 0;
  for (const PairedDelta& d : deltas) sum += d.value;
  return deltas.empty() ? 0 : sum / static_cast<double>(deltas.size());
}

// Counts of one gate at one budget over the trials.
struct Tally {
  int violations = 0, nothing = 0;
  std::vector<double> saved;
  std::vector<int> by_held_window;
};

void Count(const TrialCandidate* chosen, double epsilon, int64_t bytes_full, Tally& tally) {
  tally.saved.push_back(chosen == nullptr ? 0.0 : static_cast<double>(chosen->bytes_saved) / static_cast<double>(bytes_full));
  if (chosen == nullptr) {
    ++tally.nothing;
    return;
  }
  if (MeanOf(chosen->held) > epsilon) ++tally.violations;
  for (std::size_t i = 0; i < chosen->held.size(); ++i) {
    if (chosen->held[i].value > epsilon) ++tally.by_held_window[i];
  }
}

GateTrials Summary(Gate gate, double epsilon, const std::vector<PairedDelta>& held, Tally tally, uint64_t seed) {
  const int trials = static_cast<int>(tally.saved.size());
  GateTrials out{gate, epsilon, trials};
  out.violations = Wilson(tally.violations, trials);
  std::vector<PairedDelta> shares;
  for (std::size_t i = 0; i < held.size(); ++i)
    shares.push_back({held[i].article, static_cast<double>(tally.by_held_window[i]) / trials});
  const RiskStats requests = Summarise(shares, {2000, seed});
  out.request_violations = {requests.mean, requests.low95, requests.high95};
  std::sort(tally.saved.begin(), tally.saved.end());
  for (double s : tally.saved) out.bytes_saved += s / trials;
  out.bytes_saved_low = Quantile(tally.saved, 0.025);
  out.bytes_saved_high = Quantile(tally.saved, 0.975);
  out.chose_nothing = static_cast<double>(tally.nothing) / trials;
  return out;
}

}  // namespace

Proportion Wilson(int k, int n) {
  if (n <= 0) return {};
  constexpr double kZ = 1.959963984540054;
  const double p = static_cast<double>(k) / n, z2 = kZ * kZ / n;
  const double centre = (p + z2 / 2) / (1 + z2);
  const double reach = kZ * std::sqrt(p * (1 - p) / n + z2 / (4 * n)) / (1 + z2);
  return {p, std::max(0.0, centre - reach), std::min(1.0, centre + reach)};
}

std::vector<GateTrials> TryGates(std::span<const TrialCandidate> candidates, std::span<const double> epsilons,
                                 int64_t bytes_full, const TrialOptions& options) {
  constexpr Gate kGates[] = {Gate::kMean, Gate::kUpper90, Gate::kStableSplit};
  if (candidates.empty() || candidates[0].select.size() < 2 || candidates[0].held.empty() || options.trials < 1) return {};
  WindowGroups units = UnitsOf(candidates[0].select);
  const std::size_t half = (units.size() + 1) / 2;
  std::map<std::pair<std::size_t, Gate>, Tally> tallies;  // by budget, gate
  Random random(options.seed);
  for (int trial = 0; trial < options.trials; ++trial) {
    Shuffle(units, random);
    const Draw first = DrawFrom(units, 0, half, random), second = DrawFrom(units, half, units.size(), random);
    const BootstrapOptions bootstrap{options.resamples, random.Next()};
    std::vector<Candidate> measured;
    std::vector<std::optional<RiskStats>> confirmed(candidates.size());
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      measured.push_back({{static_cast<int>(c)}, candidates[c].bytes_saved, StatsOf(first, candidates[c].select, bootstrap)});
    }
    // A candidate's only "group" is its own number.
    const EvaluateFn confirm = [&](const std::vector<int>& number) -> absl::StatusOr<RiskStats> {
      const std::size_t c = static_cast<std::size_t>(number[0]);
      if (!confirmed[c]) confirmed[c] = StatsOf(second, candidates[c].select, bootstrap);
      return *confirmed[c];
    };
    for (std::size_t e = 0; e < epsilons.size(); ++e) {
      for (Gate gate : kGates) {
        const absl::StatusOr<int> chosen = SelectCandidate(gate, epsilons[e], measured, confirm);
        Tally& tally = tallies[{e, gate}];
        tally.by_held_window.resize(candidates[0].held.size());
        const bool none = !chosen.ok() || *chosen < 0;
        Count(none ? nullptr : &candidates[static_cast<std::size_t>(*chosen)], epsilons[e], bytes_full, tally);
      }
    }
  }
  std::vector<GateTrials> out;
  for (auto& [key, tally] : tallies)
    out.push_back(Summary(key.second, epsilons[key.first], candidates[0].held, std::move(tally), options.seed));
  return out;
}

}  // namespace riskkv

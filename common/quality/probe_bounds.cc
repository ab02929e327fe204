#include "common/quality/probe_bounds.h"

#include <algorithm>
#include <numeric>

#include "common/base/status.h"
#include "common/engine/checks.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

constexpr int kTrialsPerWindow = 100;

// Mean errors of the probes of one simulated move: one vector a block, in the order of TokenErrors' columns.
std::vector<std::vector<double>> SimulateMove(const TokenErrors& window, const ProbePolicy& policy,
                                              uint64_t seed) {
  std::vector<std::vector<double>> blocks;
  for (int64_t at = window.range.begin; at < window.range.end; at += policy.block_tokens) {
    const TokenRange block{at, std::min<int64_t>(at + policy.block_tokens, window.range.end)};
    const std::vector<int64_t> positions = ProbePositions(block, policy.tokens_per_block, seed);
    std::vector<double> mean(window.stride(), 0.0);
    for (int64_t p : positions) {
      const float* row =
          window.values.data() + static_cast<std::size_t>(p - window.range.begin) * window.stride();
      for (std::size_t c = 0; c < mean.size(); ++c) mean[c] += row[c] / static_cast<double>(positions.size());
    }
    blocks.push_back(std::move(mean));
  }
  return blocks;
}

// q-quantile of each column over rows.
std::vector<double> ColumnQuantiles(const std::vector<std::vector<double>>& rows, double q) {
  std::vector<double> out, column(rows.size());
  for (std::size_t c = 0; c < rows.front().size(); ++c) {
    for (std::size_t r = 0; r < rows.size(); ++r) column[r] = rows[r][c];
    std::sort(column.begin(), column.end());
    out.push_back(Quantile(column, q));
  }
  return out;
}

ErrorStats Stats(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return {mean, Quantile(values, 0.5), Quantile(values, 0.9), Quantile(values, 0.99)};
}

std::vector<double> Column(const std::vector<TokenErrors>& windows, std::size_t column) {
  std::vector<double> values;
  for (const TokenErrors& w : windows) {
    for (std::size_t at = column; at < w.values.size(); at += w.stride()) values.push_back(w.values[at]);
  }
  return values;
}

// Bounds by column, see the header.
std::vector<double> Bounds(const std::vector<TokenErrors>& windows, const ProbePolicy& policy,
                           uint64_t seed) {
  std::vector<std::vector<double>> probes;
  std::vector<std::size_t> move_of;
  std::size_t moves = 0;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    for (int trial = 0; trial < kTrialsPerWindow; ++trial, ++moves) {
      const uint64_t trial_seed = MixSeed(seed, w * kTrialsPerWindow + static_cast<uint64_t>(trial));
      for (auto& block : SimulateMove(windows[w], policy, trial_seed)) {
        probes.push_back(std::move(block));
        move_of.push_back(moves);
      }
    }
  }
  std::vector<double> bounds = ColumnQuantiles(probes, 0.99);
  // A layer that is always exact still needs a bound above zero.
  for (double& b : bounds) b = std::max(b, 1e-6);
  std::vector<double> worst(moves, 0.0);
  for (std::size_t i = 0; i < probes.size(); ++i) {
    for (std::size_t c = 0; c < bounds.size(); ++c)
      worst[move_of[i]] = std::max(worst[move_of[i]], probes[i][c] / bounds[c]);
  }
  std::sort(worst.begin(), worst.end());
  const double factor = std::max(1.0, Quantile(worst, 1.0 - policy.false_alarm)) * policy.margin;
  for (double& b : bounds) b *= factor;
  return bounds;
}

}  // namespace

absl::StatusOr<TokenErrors> MeasureTokenErrors(kernels::Backend& backend, kernels::SetHandle handle,
                                               const PredictorSet& set, const EndsPolicy& ends,
                                               const KvBlock& exact) {
  std::vector<int> all(set.groups().size());
  std::iota(all.begin(), all.end(), 0);
  const Profile profile = CandidateProfile(set, all, ends);
  TokenErrors out{RebuiltRange(ends, exact.range.size()), profile.omitted_layers, {}};
  ASSIGN_OR_RETURN(const KvBlock rebuilt, RebuildCache(backend, handle, set, profile, exact));
  for (int64_t p = out.range.begin; p < out.range.end; ++p) {
    ASSIGN_OR_RETURN(const ProbeRows rows, GatherRows(exact, {p}, out.layers));
    ASSIGN_OR_RETURN(const std::vector<LayerError> errors, ProbeError(set, rebuilt, rows));
    for (const LayerError& e : errors) {
      out.values.push_back(static_cast<float>(e.k));
      out.values.push_back(static_cast<float>(e.v));
    }
  }
  return out;
}

absl::Status SetProbeBounds(const std::vector<TokenErrors>& windows, const ProbePolicy& policy, uint64_t seed,
                            std::vector<GroupInfo>& groups) {
  std::vector<TokenErrors> filled;
  for (const TokenErrors& w : windows) {
    if (!w.values.empty()) filled.push_back(w);
  }
  if (filled.empty())
    return absl::InvalidArgumentError("probe bounds: no rebuilt token in any window (ends too long?)");
  const std::vector<double> bounds = Bounds(filled, policy, seed);
  const std::vector<int>& layers = filled.front().layers;
  for (GroupInfo& group : groups) {
    for (LayerCalibration& layer : group.layers) {
      const std::size_t i = static_cast<std::size_t>(
          std::lower_bound(layers.begin(), layers.end(), layer.layer) - layers.begin());
      layer.k = Stats(Column(filled, 2 * i));
      layer.v = Stats(Column(filled, 2 * i + 1));
      layer.k_bound = bounds[2 * i];
      layer.v_bound = bounds[2 * i + 1];
    }
  }
  return absl::OkStatus();
}

}  // namespace riskkv

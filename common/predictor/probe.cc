// Comparing a rebuild with exact rows: see rebuild.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/status.h"
#include "common/engine/checks.h"
#include "common/predictor/rebuild.h"
#include "fmt/format.h"
#include "kernels/fp16.h"

namespace riskkv {
namespace {

double SquaredDistance(const uint16_t* a, const uint16_t* b, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    const double d = static_cast<double>(kernels::HalfToFloat(a[i])) - kernels::HalfToFloat(b[i]);
    sum += d * d;
  }
  return sum;
}

absl::Status CheckInside(const KvBlock& block, const std::vector<int64_t>& positions,
                         const std::vector<int>& layers) {
  int64_t last = -1;
  for (int64_t p : positions) {
    if (p <= last || p < block.range.begin || p >= block.range.end) {
      return absl::InvalidArgumentError(fmt::format("probed position {} is not ascending and within [{}, {})",
                                                    p, block.range.begin, block.range.end));
    }
    last = p;
  }
  for (int l : layers) {
    if (block.IndexOf(l) < 0)
      return absl::InvalidArgumentError(fmt::format("layer {} is not in the block", l));
  }
  return absl::OkStatus();
}

double Ratio(double error, double bound) {
  return bound > 0 && std::isfinite(error) ? error / bound : std::numeric_limits<double>::infinity();
}

// The worst part of all layers, for ratio and message alike.
struct Worst {
  double ratio = 0;
  int layer = -1;
  const char* part = "K";
  double error = 0, bound = 0;
  void Take(int l, const char* p, double e, double b) {
    const double r = Ratio(e, b);
    if (layer >= 0 && !(r > ratio)) return;
    *this = {r, l, p, e, b};
  }
};

Worst FindWorst(const PredictorSet& set, const std::vector<LayerError>& errors) {
  Worst worst;
  for (const LayerError& e : errors) {
    const LayerCalibration* c = set.FindLayer(e.layer);
    worst.Take(e.layer, "K", e.k, c == nullptr ? 0 : c->k_bound);
    worst.Take(e.layer, "V", e.v, c == nullptr ? 0 : c->v_bound);
  }
  return worst;
}

}  // namespace

std::vector<int64_t> ProbePositions(TokenRange range, int n, uint64_t seed) {
  std::vector<int64_t> positions;
  if (range.empty() || n <= 0) return positions;
  // One draw from each of n equal strata: distinct, ascending and spread.
  const int64_t size = range.size();
  const int64_t strata = std::min<int64_t>(n, size);
  for (int64_t i = 0; i < strata; ++i) {
    const int64_t from = size * i / strata, to = size * (i + 1) / strata;
    const uint64_t draw =
        MixSeed(MixSeed(seed, static_cast<uint64_t>(range.begin)), static_cast<uint64_t>(i));
    positions.push_back(range.begin + from + static_cast<int64_t>(draw % static_cast<uint64_t>(to - from)));
  }
  return positions;
}

absl::StatusOr<ProbeRows> GatherRows(const KvBlock& block, const std::vector<int64_t>& positions,
                                     const std::vector<int>& layers) {
  RETURN_IF_ERROR(CheckInside(block, positions, layers));
  ProbeRows rows{positions, layers, block.kv, {}};
  rows.data.reserve(static_cast<std::size_t>(rows.elements()));
  for (int l : layers) {
    const int i = block.IndexOf(l);
    for (const uint16_t* part : {block.k(i), block.v(i)}) {
      for (int64_t p : positions) {
        const uint16_t* row = part + static_cast<std::size_t>(p - block.range.begin) * block.kv;
        rows.data.insert(rows.data.end(), row, row + block.kv);
      }
    }
  }
  return rows;
}

absl::StatusOr<std::vector<LayerError>> ProbeError(const PredictorSet& set, const KvBlock& rebuilt,
                                                   const ProbeRows& exact) {
  if (exact.kv != rebuilt.kv || static_cast<int64_t>(exact.data.size()) != exact.elements()) {
    return absl::InvalidArgumentError(
        fmt::format("probe of {} elements with rows of {}, wanted {} with rows of {}", exact.data.size(),
                    exact.kv, exact.elements(), rebuilt.kv));
  }
  ASSIGN_OR_RETURN(const ProbeRows ours, GatherRows(rebuilt, exact.positions, exact.layers));
  const std::size_t n = exact.positions.size();
  std::vector<LayerError> errors;
  for (std::size_t i = 0; i < exact.layers.size(); ++i) {
    const LayerCalibration* c = set.FindLayer(exact.layers[i]);
    if (c == nullptr) {
      return absl::InvalidArgumentError(
          fmt::format("layer {} is probed but no group targets it", exact.layers[i]));
    }
    double parts[2] = {0, 0};
    for (std::size_t part = 0; part < 2; ++part) {
      const std::size_t at = (2 * i + part) * n * static_cast<std::size_t>(exact.kv);
      for (std::size_t t = 0; t < n; ++t) {
        const std::size_t row = at + t * static_cast<std::size_t>(exact.kv);
        parts[part] += SquaredDistance(ours.data.data() + row, exact.data.data() + row, exact.kv);
      }
    }
    const double tokens = std::max<double>(1, static_cast<double>(n));
    errors.push_back({exact.layers[i], parts[0] / tokens / c->k_variance, parts[1] / tokens / c->v_variance,
                      static_cast<int>(n)});
  }
  return errors;
}

double ProbeRatio(const PredictorSet& set, const std::vector<LayerError>& errors) {
  return FindWorst(set, errors).ratio;
}

absl::Status CheckProbe(const PredictorSet& set, const Profile& profile,
                        const std::vector<LayerError>& errors) {
  for (int layer : profile.omitted_layers) {
    const bool probed = std::any_of(errors.begin(), errors.end(), [layer](const LayerError& e) {
      return e.layer == layer && e.tokens > 0;
    });
    if (!probed) {
      return MakeError(absl::StatusCode::kDataLoss, "VERIFY_GATE",
                       fmt::format("omitted layer {} of profile {} was not probed", layer, profile.name));
    }
  }
  const Worst worst = FindWorst(set, errors);
  if (worst.ratio <= 1) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kDataLoss, "VERIFY_GATE",
      fmt::format(
          "probe refused: rebuilt {} of layer {} has error {:.4f} of the variance, the bound is {:.4f}",
          worst.part, worst.layer, worst.error, worst.bound));
}

}  // namespace riskkv

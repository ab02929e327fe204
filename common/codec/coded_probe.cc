#include "common/codec/coded_probe.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/base/status.h"
#include "fmt/format.h"
#include "kernels/fp16.h"

namespace riskkv {
namespace {

// Rotations in 8 bits are not quite orthogonal: a row turned there and back is itself but for a 250th, in
// fp16 a 2000th.
constexpr double kProbeRounding = 1.0 / 64;

struct ProbeSums {
  double error = 0, exact = 0;  // squared, in units of the planes' scale
};

// One plane of one probed token; `l` is the layer's index in the probe, `t` the token's.
void AddPlane(const CodecWeights& weights, const CachePlane& plane, const KvBlock& decoded,
              const ProbeRows& exact, std::size_t l, std::size_t t, ProbeSums& sums) {
  const std::size_t kv = static_cast<std::size_t>(exact.kv), tokens = exact.positions.size();
  const uint16_t* want =
      exact.data.data() + ((2 * l + static_cast<std::size_t>(plane.part)) * tokens + t) * kv;
  const std::size_t row = static_cast<std::size_t>(exact.positions[t] - decoded.range.begin);
  const uint16_t* got = (plane.part == kPartK ? decoded.k(plane.layer) : decoded.v(plane.layer)) + row * kv;
  const double scale =
      weights.scale[2 * static_cast<std::size_t>(plane.layer) + static_cast<std::size_t>(plane.part)];
  for (std::size_t i = 0; i < kv; ++i) {
    const double x = kernels::HalfToFloat(want[i]) / scale, error = kernels::HalfToFloat(got[i]) / scale - x;
    sums.error += error * error;
    sums.exact += x * x;
  }
}

bool Covers(const std::vector<int>& layers, const CodedUnit& unit) {
  return std::all_of(unit.planes.begin(), unit.planes.end(), [&](const CachePlane& p) {
    return std::binary_search(layers.begin(), layers.end(), p.layer);
  });
}

absl::Status CheckProbeShape(const KvLayout& layout, const KvBlock& decoded, const ProbeRows& exact) {
  const bool fits =
      exact.kv == layout.kv() && decoded.kv == layout.kv() && CheckLayers(layout, exact.layers).ok() &&
      static_cast<int>(decoded.layers.size()) == layout.n_layer &&
      static_cast<int64_t>(exact.data.size()) == exact.elements() && !exact.positions.empty() &&
      exact.positions.front() >= decoded.range.begin && exact.positions.back() < decoded.range.end &&
      std::is_sorted(exact.positions.begin(), exact.positions.end());
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("a probe of {} tokens and {} layers does not fit cells [{}, {})", exact.positions.size(),
                  exact.layers.size(), decoded.range.begin, decoded.range.end));
}

}  // namespace

std::vector<int> CodedProbeLayers(const BlockCodec& codec, const CodedPolicy& policy, uint64_t seed,
                                  int64_t block) {
  std::vector<std::size_t> finite;
  for (std::size_t u = 0; u < policy.steps.size(); ++u) {
    if (std::isfinite(policy.steps[u])) finite.push_back(u);
  }
  if (finite.empty()) return {};
  const std::size_t unit = finite[(seed + static_cast<uint64_t>(block)) % finite.size()];
  std::set<int> layers;
  for (const CachePlane& p : codec.weights().plan[unit].planes) layers.insert(p.layer);
  return {layers.begin(), layers.end()};
}

absl::StatusOr<double> CheckCodedProbe(const BlockCodec& codec, const CodedPolicy& policy,
                                       const KvBlock& decoded, const ProbeRows& exact) {
  RETURN_IF_ERROR(CheckProbeShape(codec.layout(), decoded, exact));
  const CodecWeights& weights = codec.weights();
  double worst = 0;
  bool compared = false;
  for (std::size_t u = 0; u < weights.plan.size(); ++u) {
    const CodedUnit& unit = weights.plan[u];
    if (!std::isfinite(policy.steps[u]) || !Covers(exact.layers, unit)) continue;
    compared = true;
    const double width = UnitWidth(unit, exact.kv);
    for (std::size_t t = 0; t < exact.positions.size(); ++t) {
      ProbeSums sums;
      for (const CachePlane& p : unit.planes) {
        const auto at = std::lower_bound(exact.layers.begin(), exact.layers.end(), p.layer);
        AddPlane(weights, p, decoded, exact, static_cast<std::size_t>(at - exact.layers.begin()), t, sums);
      }
      const double bound =
          kDeadZone * policy.steps[u] * std::sqrt(width) + kProbeRounding * std::sqrt(sums.exact);
      const double error = std::sqrt(sums.error);
      if (!(error <= bound)) {
        return MakeError(
            absl::StatusCode::kDataLoss, "VERIFY_GATE",
            fmt::format("probe: coded unit {} at token {} differs by {:.4g} scales, its step allows {:.4g}",
                        u, exact.positions[t], error, bound));
      }
      worst = std::max(worst, error / bound);
    }
  }
  if (compared) return worst;
  return MakeError(absl::StatusCode::kDataLoss, "VERIFY_GATE",
                   "probe: its layers are of no coded unit, or all are omitted");
}

}  // namespace riskkv

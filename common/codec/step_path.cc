#include "common/codec/step_path.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/codec/coded_block.h"
#include "fmt/format.h"
#include "kernels/fp16.h"

namespace riskkv {
namespace {

// Squared error of one unit's planes in units of their scales. Rotations keep a head's length, so that cached keys
// serve.
double UnitError(const BlockCodec& codec, std::size_t u, const KvBlock& exact, const KvBlock& decoded) {
  const std::size_t n = static_cast<std::size_t>(exact.range.size()) * exact.kv;
  double sum = 0;
  for (const CachePlane& p : codec.weights().plan[u].planes) {
    const uint16_t* a = p.part == kPartK ? exact.k(p.layer) : exact.v(p.layer);
    const uint16_t* b = p.part == kPartK ? decoded.k(p.layer) : decoded.v(p.layer);
    const double scale = codec.weights().scale[2 * static_cast<std::size_t>(p.layer) + p.part];
    double plane = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double d = kernels::HalfToFloat(a[i]) - kernels::HalfToFloat(b[i]);
      plane += d * d;
    }
    sum += plane / (scale * scale);
  }
  return sum;
}

absl::Status AddBlock(const BlockCodec& codec, const CodedPolicy& policy, const KvBlock& block, std::size_t notch,
                      std::vector<UnitCurve>& curves, CodecScratch& scratch) {
  ASSIGN_OR_RETURN(const std::string bytes, codec.Encode(policy, block, scratch));
  ASSIGN_OR_RETURN(const KvBlock decoded, codec.Decode(policy, bytes, scratch));
  ASSIGN_OR_RETURN(const CodedBlockView view, ReadCodedBlock(bytes, curves.size()));
  for (std::size_t u = 0; u < curves.size(); ++u) {
    curves[u].bytes[notch] += static_cast<double>(view.units[u].words.size() + view.units[u].bits.size());
    curves[u].error[notch] += UnitError(codec, u, block, decoded);
  }
  return absl::OkStatus();
}

void Omit(const BlockCodec& codec, std::size_t notch, double tokens, std::vector<UnitCurve>& curves) {
  for (std::size_t u = 0; u < curves.size(); ++u) {
    for (float v : codec.weights().units[u].variance) curves[u].error[notch] += tokens * v;
  }
}

// Notches of the lower convex hull of a curve that falls in bytes and rises in error, finest first.
std::vector<std::size_t> Hull(const UnitCurve& c) {
  auto slope = [&c](std::size_t from, std::size_t to) {
    return (c.error[to] - c.error[from]) / (c.bytes[from] - c.bytes[to]);
  };
  std::vector<std::size_t> hull = {0};
  for (std::size_t i = 1; i < c.bytes.size(); ++i) {
    if (c.bytes[i] >= c.bytes[hull.back()]) continue;  // saves nothing over a finer one
    while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) >= slope(hull.back(), i)) hull.pop_back();
    hull.push_back(i);
  }
  return hull;
}

struct Move {
  std::size_t unit, to;
  double saved, cost;
};

std::vector<Move> AllMoves(std::span<const UnitCurve> curves) {
  std::vector<Move> moves;
  for (std::size_t u = 0; u < curves.size(); ++u) {
    const std::vector<std::size_t> hull = Hull(curves[u]);
    for (std::size_t i = 1; i < hull.size(); ++i) {
      moves.push_back({u, hull[i], curves[u].bytes[hull[i - 1]] - curves[u].bytes[hull[i]],
                       curves[u].error[hull[i]] - curves[u].error[hull[i - 1]]});
    }
  }
  // Stable: moves of one unit stay in their order, as the hull's slopes rise.
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move& a, const Move& b) { return a.cost * b.saved < b.cost * a.saved; });
  return moves;
}

}  // namespace

absl::StatusOr<std::vector<UnitCurve>> MeasureUnitCurves(const BlockCodec& codec, std::span<const KvBlock> blocks,
                                                         std::span<const float> steps, CodecScratch& scratch) {
  if (blocks.empty() || steps.empty() || !std::is_sorted(steps.begin(), steps.end())) {
    return absl::InvalidArgumentError(
        fmt::format("{} blocks and {} steps (ascending) to measure units on", blocks.size(), steps.size()));
  }
  const std::vector<double> none(steps.size());
  std::vector<UnitCurve> curves(codec.weights().units.size(), {none, none});
  double tokens = 0;
  for (const KvBlock& block : blocks) tokens += static_cast<double>(block.range.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!std::isfinite(steps[i])) {
      Omit(codec, i, tokens, curves);
      continue;
    }
    ASSIGN_OR_RETURN(const CodedPolicy policy, codec.MakePolicy(steps[i]));
    for (const KvBlock& block : blocks) RETURN_IF_ERROR(AddBlock(codec, policy, block, i, curves, scratch));
  }
  for (UnitCurve& c : curves) {
    for (double& b : c.bytes) b /= tokens;
    for (double& e : c.error) e /= tokens;
  }
  return curves;
}

std::vector<StepPoint> WalkSteps(std::span<const UnitCurve> curves, std::span<const float> steps, double ratio) {
  StepPoint at;
  at.steps.assign(curves.size(), steps.front());
  for (const UnitCurve& c : curves) {
    at.bytes += c.bytes.front();
    at.error += c.error.front();
  }
  std::vector<StepPoint> path = {at};
  const std::vector<Move> moves = AllMoves(curves);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    at.steps[moves[i].unit] = steps[moves[i].to];
    at.bytes -= moves[i].saved;
    at.error += moves[i].cost;
    if (i + 1 == moves.size() || at.bytes <= ratio * path.back().bytes) path.push_back(at);
  }
  return path;
}

}  // namespace riskkv

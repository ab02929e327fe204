#include "common/codec/codec_weights.h"

#include <algorithm>
#include <cmath>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "fmt/format.h"
#include "kernels/fp16.h"

namespace riskkv {
namespace {

absl::Status CheckSize(const char* what, std::size_t unit, std::size_t found, int64_t wanted) {
  if (static_cast<int64_t>(found) == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("coded unit {}: {} has {} numbers, its plan wants {}", unit, what, found, wanted));
}

bool AllFiniteFloats(const std::vector<float>& v) {
  return std::all_of(v.begin(), v.end(), [](float x) { return std::isfinite(x); });
}

bool AllPositiveFloats(const std::vector<float>& v) {
  return std::all_of(v.begin(), v.end(), [](float x) { return std::isfinite(x) && x > 0; });
}

absl::Status RoundVector(std::vector<float>& v, std::size_t unit) {
  std::vector<uint16_t> half(v.size());
  kernels::FloatToHalf(v.data(), half.data(), v.size());
  if (!kernels::AllFinite(half.data(), half.size()))
    return absl::OutOfRangeError(fmt::format("coded unit {}: a weight does not fit fp16", unit));
  kernels::HalfToFloat(half.data(), v.data(), v.size());
  return absl::OkStatus();
}

// Columns of m [rows, columns] to multiples of their scales.
std::vector<float> RoundColumns(std::vector<float>& m, std::size_t columns) {
  constexpr float kLargest = 127.0f;
  std::vector<float> scale(columns);
  for (std::size_t i = 0; i < m.size(); ++i)
    scale[i % columns] = std::max(scale[i % columns], std::fabs(m[i]) / kLargest);
  for (float& s : scale) s = s > 0 ? s : 1.0f;
  // Plus nothing: a zero that was rounded from below must be the same zero that a file gives back.
  for (std::size_t i = 0; i < m.size(); ++i) m[i] = std::round(m[i] / scale[i % columns]) * scale[i % columns] + 0.0f;
  return scale;
}

template <typename T>
void AppendBytes(const std::vector<T>& v, std::vector<uint64_t>& digests) {
  digests.push_back(Xxh3(v.data(), v.size() * sizeof(T)));
}

}  // namespace

absl::Status CheckCodecWeights(const CodecWeights& w, int n_layer, int kv) {
  RETURN_IF_ERROR(CheckPlan(w.plan, n_layer));
  if (w.units.size() != w.plan.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} units of weights for {} of the plan", w.units.size(), w.plan.size()));
  }
  if (w.mean.size() != 2 * static_cast<std::size_t>(n_layer) * kv ||
      w.scale.size() != 2 * static_cast<std::size_t>(n_layer)) {
    return absl::InvalidArgumentError(fmt::format("{} means and {} scales for {} layers of {} elements",
                                                  w.mean.size(), w.scale.size(), n_layer, kv));
  }
  if (!AllFiniteFloats(w.mean) || !AllPositiveFloats(w.scale))
    return absl::InvalidArgumentError("a mean is not finite or a scale not positive");
  if (w.tables == nullptr) return absl::InvalidArgumentError("the codec has no frequency tables");
  for (std::size_t u = 0; u < w.units.size(); ++u) {
    const UnitWeights& unit = w.units[u];
    const int64_t width = UnitWidth(w.plan[u], kv), from = ConditionWidth(w.plan, w.plan[u], kv);
    RETURN_IF_ERROR(CheckSize("rotation", u, unit.rotation.size(), width * width));
    RETURN_IF_ERROR(CheckSize("predictor", u, unit.predictor.size(), from * width));
    RETURN_IF_ERROR(CheckSize("variance", u, unit.variance.size(), width));
    if (!AllFiniteFloats(unit.rotation) || !AllFiniteFloats(unit.predictor) ||
        !AllPositiveFloats(unit.variance)) {
      return absl::InvalidArgumentError(
          fmt::format("coded unit {}: a weight is not finite or a variance not positive", u));
    }
  }
  return absl::OkStatus();
}

absl::Status RoundToHalf(CodecWeights& weights) {
  for (std::size_t u = 0; u < weights.units.size(); ++u) {
    RETURN_IF_ERROR(RoundVector(weights.units[u].rotation, u));
    RETURN_IF_ERROR(RoundVector(weights.units[u].predictor, u));
  }
  return absl::OkStatus();
}

void RoundToInt8(CodecWeights& weights) {
  for (UnitWeights& unit : weights.units) {
    unit.rotation_scale = RoundColumns(unit.rotation, unit.variance.size());
    if (!unit.predictor.empty()) unit.predictor_scale = RoundColumns(unit.predictor, unit.variance.size());
  }
}

uint64_t CodecDigest(const CodecWeights& w) {
  std::vector<uint64_t> digests;
  AppendBytes(w.mean, digests);
  AppendBytes(w.scale, digests);
  for (std::size_t u = 0; u < w.units.size(); ++u) {
    for (const CachePlane& p : w.plan[u].planes) digests.push_back(static_cast<uint64_t>(2 * p.layer + p.part));
    AppendBytes(w.plan[u].conditions, digests);
    AppendBytes(w.units[u].rotation, digests);
    AppendBytes(w.units[u].predictor, digests);
    AppendBytes(w.units[u].variance, digests);
  }
  for (const FrequencyTables::Row& row : w.tables->rows()) digests.push_back(Xxh3(row.data(), sizeof(row)));
  return Xxh3(digests.data(), digests.size() * sizeof(uint64_t));
}

}  // namespace riskkv

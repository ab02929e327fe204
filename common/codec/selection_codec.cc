#include "common/codec/selection_codec.h"

#include <cmath>

#include "common/base/status.h"
#include "common/codec/codec_section.h"

namespace riskkv {
namespace {

// The fake's cells are uniform integers in [-1024, 1024).
const float kNoiseScale = 2048.0f / std::sqrt(12.0f);

UnitWeights NoiseUnit(int width, int from) {
  const std::size_t n = static_cast<std::size_t>(width);
  UnitWeights unit;
  unit.rotation.assign(n * n, 0.0f);
  for (std::size_t i = 0; i < n; ++i) unit.rotation[i * n + i] = 1.0f;
  unit.predictor.assign(static_cast<std::size_t>(from) * n, 0.0f);
  unit.variance.assign(n, 1.0f);
  return unit;
}

CodedProfile NoiseProfile(const std::string& name, double epsilon, float step, bool int8, std::size_t units,
                          double times_fewer) {
  CodedProfile p;
  p.name = name;
  p.epsilon = epsilon;
  p.steps.assign(units, step);
  p.int8_ends = int8;
  p.gated = epsilon > 0;
  p.gate = p.gated ? "stable-split" : "none";
  p.times_fewer = times_fewer;
  return p;
}

}  // namespace

absl::StatusOr<std::string> WithSelectionCodec(const PredictorSet& set) {
  const KvLayout& layout = set.layout();
  const std::size_t planes = 2 * static_cast<std::size_t>(layout.n_layer);
  CodecWeights weights;
  weights.plan = PairPlan(layout.n_layer);
  weights.mean.assign(planes * static_cast<std::size_t>(layout.kv()), 0.0f);
  weights.scale.assign(planes, kNoiseScale);
  for (const CodedUnit& unit : weights.plan)
    weights.units.push_back(
        NoiseUnit(UnitWidth(unit, layout.kv()), ConditionWidth(weights.plan, unit, layout.kv())));
  ASSIGN_OR_RETURN(weights.tables, FrequencyTables::Create(FrequencyTables::LaplaceRows()));
  const std::size_t units = weights.plan.size();
  return WithSection(set, ToSection(weights, layout.kv(),
                                    {NoiseProfile("coded-0.002", 0.002, 0.25f, true, units, 3.1),
                                     NoiseProfile("coded-0.005", 0.005, 0.5f, false, units, 3.3),
                                     NoiseProfile("coded-ungated", 0, 1.0f, true, units, 4.5)}));
}

}  // namespace riskkv

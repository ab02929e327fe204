#include "common/predictor/selection_set.h"

#include "common/base/status.h"
#include "common/engine/fake/fake_model.h"

namespace riskkv {
namespace {

constexpr double kBound = 0.02;

// Cells of the fake are uniform integers in [-1024, 1024): variance 2048^2 / 12 an element.
double LayerVariance(int kv) { return kv * (2048.0 * 2048.0 / 12.0); }

GroupInfo SelectionGroup(const FakeGroupWeights& w, int kv) {
  GroupInfo group;
  group.spec = {w.anchors, w.targets};
  for (int target : w.targets) {
    LayerCalibration layer;
    layer.layer = target;
    layer.k_variance = layer.v_variance = LayerVariance(kv);
    layer.k_bound = layer.v_bound = kBound;
    group.layers.push_back(layer);
  }
  return group;
}

Profile SelectionProfile(const std::string& name, double epsilon, bool gated, std::vector<int> groups,
                         const SetInfo& info, const EndsPolicy& ends) {
  Profile p;
  p.name = name;
  p.mode = TransferMode::kRisk;
  p.epsilon = epsilon;
  p.omitted_layers = TargetsOf(info.groups, groups);
  p.groups = std::move(groups);
  p.ends = ends;
  p.gated = gated;
  p.gate = gated ? "stable-split" : "none";
  return p;
}

SetInfo SelectionInfo(const std::vector<FakeGroupWeights>& weights, int kv, const EndsPolicy& ends) {
  SetInfo info;
  std::vector<int> all;
  for (std::size_t g = 0; g < weights.size(); ++g) {
    info.groups.push_back(SelectionGroup(weights[g], kv));
    all.push_back(static_cast<int>(g));
  }
  info.profiles["exact"] = ExactProfile(ends);
  if (!all.empty()) {
    info.profiles["risk-0.002"] = SelectionProfile("risk-0.002", 0.002, true, {0}, info, ends);
    info.profiles["risk-0.005"] = SelectionProfile("risk-0.005", 0.005, true, all, info, ends);
    info.profiles["ungated-safest"] = SelectionProfile("ungated-safest", 0, false, {0}, info, ends);
  }
  info.calibration = R"({"method":"selection matrices of the fake engine"})";
  return info;
}

}  // namespace

absl::StatusOr<std::string> SelectionSetBytes(const ModelFacts& fake, EndsPolicy ends,
                                              kernels::WeightType type, float scale) {
  const KvLayout& layout = fake.fingerprint.layout;
  const std::vector<FakeGroupWeights> weights = FakePredictor(layout, scale);
  std::vector<GroupTensors> tensors;
  for (const FakeGroupWeights& w : weights) tensors.push_back({w.b, w.bias});
  return SerializePredictorSet(fake.fingerprint, SelectionInfo(weights, layout.kv(), ends), tensors, type);
}

absl::StatusOr<std::shared_ptr<const PredictorSet>> MakeSelectionSet(const ModelFacts& fake, EndsPolicy ends,
                                                                     kernels::WeightType type, float scale) {
  ASSIGN_OR_RETURN(std::string bytes, SelectionSetBytes(fake, ends, type, scale));
  return PredictorSet::FromBytes(std::move(bytes), "the fake engine's selection set");
}

}  // namespace riskkv

#include "common/predictor/set_json.h"

#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/predictor/safetensors.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace riskkv {
namespace {

using Json = nlohmann::json;
using kernels::RopePairing;

constexpr std::pair<RopePairing, const char*> kPairings[] = {
    {RopePairing::kNone, "none"}, {RopePairing::kNeighbours, "neighbours"}, {RopePairing::kHalves, "halves"}};

const char* PairingName(RopePairing p) {
  for (const auto& [value, name] : kPairings) {
    if (value == p) return name;
  }
  return "none";
}

Json ToJson(const ErrorStats& e) {
  return {{"mean", e.mean}, {"p50", e.p50}, {"p90", e.p90}, {"p99", e.p99}};
}

Json ToJson(const LayerCalibration& l) {
  return {{"layer", l.layer},       {"k_variance", l.k_variance}, {"v_variance", l.v_variance},
          {"k_error", ToJson(l.k)}, {"v_error", ToJson(l.v)},     {"k_bound", l.k_bound},
          {"v_bound", l.v_bound}};
}

ErrorStats ErrorsFromJson(const Json& j) {
  return {j.at("mean").get<double>(), j.at("p50").get<double>(), j.at("p90").get<double>(),
          j.at("p99").get<double>()};
}

RiskStats RiskFromJson(const Json& j) {
  RiskStats r;
  r.mean = j.at("mean").get<double>();
  r.low95 = j.at("low95").get<double>();
  r.high95 = j.at("high95").get<double>();
  r.upper90 = j.at("upper90").get<double>();
  r.worst = j.at("worst").get<double>();
  r.windows = j.at("windows").get<int>();
  r.articles = j.at("articles").get<int>();
  // Sets written before these were kept have none.
  r.p50 = j.value("p50", 0.0);
  r.p90 = j.value("p90", 0.0);
  r.p99 = j.value("p99", 0.0);
  return r;
}

LayerCalibration LayerFromJson(const Json& j) {
  LayerCalibration l;
  l.layer = j.at("layer").get<int>();
  l.k_variance = j.at("k_variance").get<double>();
  l.v_variance = j.at("v_variance").get<double>();
  l.k = ErrorsFromJson(j.at("k_error"));
  l.v = ErrorsFromJson(j.at("v_error"));
  l.k_bound = j.at("k_bound").get<double>();
  l.v_bound = j.at("v_bound").get<double>();
  return l;
}

GroupInfo GroupFromJson(const Json& j) {
  GroupInfo g;
  g.spec.anchors = j.at("anchors").get<std::vector<int>>();
  g.spec.targets = j.at("targets").get<std::vector<int>>();
  g.lambda = j.at("lambda").get<double>();
  g.held_out_error = j.at("held_out_error").get<double>();
  g.risk = RiskFromJson(j.at("risk"));
  for (const Json& l : j.at("layers")) g.layers.push_back(LayerFromJson(l));
  return g;
}

Profile ProfileFromJson(const std::string& name, const Json& j) {
  Profile p;
  p.name = name;
  p.mode = j.at("mode").get<std::string>() == "RISK" ? TransferMode::kRisk : TransferMode::kFull;
  p.epsilon = j.at("epsilon").get<double>();
  p.groups = j.at("groups").get<std::vector<int>>();
  p.omitted_layers = j.at("omitted_layers").get<std::vector<int>>();
  p.ends = {j.at("ends").at(0).get<int>(), j.at("ends").at(1).get<int>()};
  p.gated = j.at("gated").get<bool>();
  p.gate = j.at("gate").get<std::string>();
  p.select = RiskFromJson(j.at("select"));
  p.confirm = RiskFromJson(j.at("confirm"));
  return p;
}

absl::Status CheckProfile(const Profile& p, const SetInfo& info) {
  int last = -1;
  for (int g : p.groups) {
    if (g <= last || g >= static_cast<int>(info.groups.size())) {
      return CorruptFile(fmt::format("profile {}: groups [{}] are not ascending and within [0, {})", p.name,
                                 fmt::join(p.groups, ","), info.groups.size()));
    }
    last = g;
  }
  const std::vector<int> targets = TargetsOf(info.groups, p.groups);
  if (targets != p.omitted_layers) {
    return CorruptFile(fmt::format("profile {}: omits [{}], its groups target [{}]", p.name,
                               fmt::join(p.omitted_layers, ","), fmt::join(targets, ",")));
  }
  if ((p.mode == TransferMode::kRisk) != !p.groups.empty()) {
    return CorruptFile(
        fmt::format("profile {}: mode {} with {} groups", p.name, TransferModeName(p.mode), p.groups.size()));
  }
  if (p.ends.first < 0 || p.ends.last < 0) {
    return CorruptFile(fmt::format("profile {}: ends {} and {}", p.name, p.ends.first, p.ends.last));
  }
  return absl::OkStatus();
}

absl::Status CheckLayerNumbers(const LayerCalibration& l, int target) {
  if (l.layer != target)
    return CorruptFile(fmt::format("calibration of layer {} where layer {} belongs", l.layer, target));
  const bool positive =
      std::isfinite(l.k_variance) && std::isfinite(l.v_variance) && l.k_variance > 0 && l.v_variance > 0;
  const bool bounded =
      std::isfinite(l.k_bound) && std::isfinite(l.v_bound) && l.k_bound >= 0 && l.v_bound >= 0;
  if (positive && bounded) return absl::OkStatus();
  return CorruptFile(fmt::format("layer {}: variances {} and {}, bounds {} and {}", l.layer, l.k_variance,
                             l.v_variance, l.k_bound, l.v_bound));
}

}  // namespace

nlohmann::json ToJson(const Fingerprint& f) {
  const KvLayout& l = f.layout;
  return {{"protocol_min", f.protocol_min},
          {"protocol_max", f.protocol_max},
          {"architecture", f.architecture},
          {"weights_digest", f.weights_digest},
          {"tokenizer_digest", f.tokenizer_digest},
          {"n_layer", l.n_layer},
          {"n_head_kv", l.n_head_kv},
          {"head_dim", l.head_dim},
          {"rope",
           {{"pairing", PairingName(l.rope.pairing)},
            {"rotary_dim", l.rope.rotary_dim},
            {"freq_base", l.rope.freq_base},
            {"freq_scale", l.rope.freq_scale},
            {"freq_factors", l.rope.freq_factors}}},
          {"cache_type", f.cache_type},
          {"layout_version", f.layout_version}};
}

nlohmann::json ToJson(const RiskStats& r) {
  return {{"mean", r.mean},   {"low95", r.low95},     {"high95", r.high95},    {"upper90", r.upper90},
          {"worst", r.worst}, {"windows", r.windows}, {"articles", r.articles}, {"p50", r.p50},
          {"p90", r.p90},     {"p99", r.p99}};
}

nlohmann::json ToJson(const Profile& p) {
  return {{"mode", TransferModeName(p.mode)},
          {"epsilon", p.epsilon},
          {"groups", p.groups},
          {"omitted_layers", p.omitted_layers},
          {"ends", {p.ends.first, p.ends.last}},
          {"gated", p.gated},
          {"gate", p.gate},
          {"select", ToJson(p.select)},
          {"confirm", ToJson(p.confirm)}};
}

nlohmann::json ToJson(const GroupInfo& g) {
  Json layers = Json::array();
  for (const LayerCalibration& l : g.layers) layers.push_back(ToJson(l));
  return {{"anchors", g.spec.anchors},          {"targets", g.spec.targets}, {"lambda", g.lambda},
          {"held_out_error", g.held_out_error}, {"risk", ToJson(g.risk)},    {"layers", std::move(layers)}};
}

nlohmann::json ToJson(const SetInfo& info) {
  Json groups = Json::array(), profiles = Json::object(), path = Json::array();
  for (const GroupInfo& g : info.groups) groups.push_back(ToJson(g));
  for (const auto& [name, p] : info.profiles) profiles[name] = ToJson(p);
  for (const PathPoint& p : info.path) {
    path.push_back({{"groups", p.groups}, {"select", ToJson(p.select)}, {"confirm", ToJson(p.confirm)}});
  }
  return {{"layout", info.layout},
          {"groups", std::move(groups)},
          {"profiles", std::move(profiles)},
          {"path", std::move(path)},
          {"probe",
           {{"tokens_per_block", info.probe.tokens_per_block},
            {"block_tokens", info.probe.block_tokens},
            {"false_alarm", info.probe.false_alarm},
            {"margin", info.probe.margin}}},
          {"calibration", Json::parse(info.calibration, nullptr, /*allow_exceptions=*/false)}};
}

absl::StatusOr<Fingerprint> FingerprintFromJson(const nlohmann::json& j) {
  Fingerprint f;
  try {
    f.protocol_min = j.at("protocol_min").get<int>();
    f.protocol_max = j.at("protocol_max").get<int>();
    f.architecture = j.at("architecture").get<std::string>();
    f.weights_digest = j.at("weights_digest").get<std::string>();
    f.tokenizer_digest = j.at("tokenizer_digest").get<std::string>();
    f.layout.n_layer = j.at("n_layer").get<int>();
    f.layout.n_head_kv = j.at("n_head_kv").get<int>();
    f.layout.head_dim = j.at("head_dim").get<int>();
    const Json& rope = j.at("rope");
    const std::string pairing = rope.at("pairing").get<std::string>();
    bool known = false;
    for (const auto& [value, name] : kPairings) {
      if (pairing != name) continue;
      f.layout.rope.pairing = value;
      known = true;
    }
    if (!known) return CorruptFile(fmt::format("unknown rope pairing {}", pairing));
    f.layout.rope.rotary_dim = rope.at("rotary_dim").get<int>();
    f.layout.rope.freq_base = rope.at("freq_base").get<float>();
    f.layout.rope.freq_scale = rope.at("freq_scale").get<float>();
    f.layout.rope.freq_factors = rope.at("freq_factors").get<std::vector<float>>();
    f.cache_type = j.at("cache_type").get<std::string>();
    f.layout_version = j.at("layout_version").get<int>();
  } catch (const Json::exception& e) {
    return CorruptFile(fmt::format("bad fingerprint: {}", e.what()));
  }
  const KvLayout& l = f.layout;
  constexpr int kMaxDimension = 1 << 20;
  if (l.n_layer <= 0 || l.n_head_kv <= 0 || l.head_dim <= 0 || l.n_layer > kMaxDimension ||
      l.n_head_kv > kMaxDimension || l.head_dim > kMaxDimension ||
      static_cast<int64_t>(l.n_head_kv) * l.head_dim > kMaxDimension) {
    return CorruptFile(fmt::format("bad shape: {} layers, {} heads of {}", l.n_layer, l.n_head_kv, l.head_dim));
  }
  return f;
}

absl::StatusOr<SetInfo> SetInfoFromJson(const nlohmann::json& j, const KvLayout& layout) {
  SetInfo info;
  try {
    info.layout = j.at("layout").get<std::string>();
    for (const Json& g : j.at("groups")) info.groups.push_back(GroupFromJson(g));
    for (const auto& [name, p] : j.at("profiles").items()) info.profiles[name] = ProfileFromJson(name, p);
    for (const Json& p : j.at("path")) {
      info.path.push_back({p.at("groups").get<std::vector<int>>(), RiskFromJson(p.at("select")),
                           RiskFromJson(p.at("confirm"))});
    }
    const Json& probe = j.at("probe");
    info.probe = {probe.at("tokens_per_block").get<int>(), probe.at("block_tokens").get<int>(),
                  probe.at("false_alarm").get<double>(), probe.at("margin").get<double>()};
    info.calibration = j.at("calibration").dump();
  } catch (const Json::exception& e) {
    return CorruptFile(fmt::format("bad set description: {}", e.what()));
  }
  RETURN_IF_ERROR(CheckSetInfo(info, layout));
  return info;
}

absl::Status CheckSetInfo(const SetInfo& info, const KvLayout& layout) {
  std::vector<GroupSpec> specs;
  for (const GroupInfo& g : info.groups) specs.push_back(g.spec);
  if (absl::Status status = CheckGroups(specs, layout.n_layer); !status.ok()) {
    return CorruptFile(std::string(status.message().data(), status.message().size()));
  }
  for (const GroupInfo& g : info.groups) {
    if (g.layers.size() != g.spec.targets.size()) {
      return CorruptFile(
          fmt::format("{} calibrated layers for {} targets", g.layers.size(), g.spec.targets.size()));
    }
    for (std::size_t i = 0; i < g.layers.size(); ++i)
      RETURN_IF_ERROR(CheckLayerNumbers(g.layers[i], g.spec.targets[i]));
  }
  if (info.profiles.count("exact") == 0) return CorruptFile("there is no profile \"exact\"");
  for (const auto& [name, p] : info.profiles) RETURN_IF_ERROR(CheckProfile(p, info));
  return absl::OkStatus();
}

}  // namespace riskkv

#include "common/codec/coded_profile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/status.h"
#include "common/codec/codec_section.h"
#include "common/codec/int8_rows.h"
#include "common/predictor/safetensors.h"
#include "common/predictor/set_json.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace riskkv {
namespace {

using ProfileJson = nlohmann::json;

RiskStats StatsFromJson(const ProfileJson& j) {
  RiskStats s;
  s.mean = j.at("mean").get<double>();
  s.low95 = j.at("low95").get<double>();
  s.high95 = j.at("high95").get<double>();
  s.upper90 = j.at("upper90").get<double>();
  s.worst = j.at("worst").get<double>();
  s.windows = j.at("windows").get<int>();
  s.articles = j.at("articles").get<int>();
  return s;
}

// JSON has no infinity: an omitted residual is a step of zero there.
std::vector<float> StepsFromJson(const ProfileJson& j) {
  std::vector<float> steps = j.get<std::vector<float>>();
  for (float& s : steps) s = s == 0 ? std::numeric_limits<float>::infinity() : s;
  return steps;
}

CodedProfile CodedProfileFromJson(const std::string& name, const ProfileJson& j) {
  CodedProfile p;
  p.name = name;
  p.epsilon = j.at("epsilon").get<double>();
  p.steps = StepsFromJson(j.at("steps"));
  p.ends = {j.at("ends").at(0).get<int>(), j.at("ends").at(1).get<int>()};
  p.int8_ends = j.at("int8_ends").get<bool>();
  p.gated = j.at("gated").get<bool>();
  p.gate = j.at("gate").get<std::string>();
  p.select = StatsFromJson(j.at("select"));
  p.confirm = StatsFromJson(j.at("confirm"));
  p.times_fewer = j.at("times_fewer").get<double>();
  return p;
}

void CopyRows(const KvBlock& from, KvBlock& to) {
  const std::size_t skip = static_cast<std::size_t>(from.range.begin - to.range.begin) * from.kv;
  const std::size_t elements = static_cast<std::size_t>(from.range.size()) * from.kv;
  for (std::size_t i = 0; i < from.layers.size(); ++i) {
    const int layer = static_cast<int>(i);
    std::copy_n(from.k(layer), elements, to.k(layer) + skip);
    std::copy_n(from.v(layer), elements, to.v(layer) + skip);
  }
}

absl::Status SendEnd(const KvLayout& layout, bool int8, const KvBlock& exact, TokenRange range, CodedCache& cache) {
  if (range.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const KvBlock end, Slice(exact, range, exact.layers));
  if (!int8) {
    cache.bytes += end.bytes();
    return absl::OkStatus();  // the cells are there already, bit for bit
  }
  ASSIGN_OR_RETURN(const std::string bytes, EncodeInt8(layout, end));
  ASSIGN_OR_RETURN(const KvBlock decoded, DecodeInt8(layout, bytes));
  CopyRows(decoded, cache.cells);
  cache.bytes += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

}  // namespace

std::string CodedProfileName(double epsilon) { return fmt::format("coded-{}", epsilon); }

std::string CodedProfilesToJson(const std::vector<CodedProfile>& profiles) {
  ProfileJson all = ProfileJson::object();
  for (const CodedProfile& p : profiles) {
    std::vector<float> steps = p.steps;
    for (float& s : steps) s = std::isfinite(s) ? s : 0.0f;
    all[p.name] = {{"epsilon", p.epsilon},
                   {"steps", steps},
                   {"ends", {p.ends.first, p.ends.last}},
                   {"int8_ends", p.int8_ends},
                   {"gated", p.gated},
                   {"gate", p.gate},
                   {"select", ToJson(p.select)},
                   {"confirm", ToJson(p.confirm)},
                   {"times_fewer", p.times_fewer}};
  }
  return all.dump();
}

absl::StatusOr<std::vector<CodedProfile>> ReadCodedProfiles(const PredictorSet& set) {
  std::vector<CodedProfile> profiles;
  const std::string description = set.SectionDescription(kCodecSection);
  if (description.empty()) return profiles;
  try {
    const ProfileJson j = ProfileJson::parse(description);
    const std::size_t units = j.at("units").size();
    const ProfileJson all = j.value("profiles", ProfileJson::object());
    for (const auto& [name, value] : all.items()) {
      CodedProfile p = CodedProfileFromJson(name, value);
      const bool positive = std::all_of(p.steps.begin(), p.steps.end(), [](float s) { return s > 0; });
      if (p.steps.size() != units || !positive || p.ends.first < 0 || p.ends.last < 0) {
        return CorruptFile(fmt::format("{}: profile {}: {} steps for {} units, or one is not positive, or ends {} and {}",
                                       set.path(), name, p.steps.size(), units, p.ends.first, p.ends.last));
      }
      profiles.push_back(std::move(p));
    }
  } catch (const ProfileJson::exception& e) {
    return CorruptFile(fmt::format("{}: coded profiles: {}", set.path(), e.what()));
  }
  return profiles;
}

absl::StatusOr<CodedProfile> FindCodedProfile(const PredictorSet& set, std::string_view name) {
  ASSIGN_OR_RETURN(const std::vector<CodedProfile> profiles, ReadCodedProfiles(set));
  std::string known;
  for (const CodedProfile& p : profiles) {
    if (p.name == name) return p;
    known += (known.empty() ? "" : ", ") + p.name;
  }
  return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_PROFILE",
                   fmt::format("{}: no coded profile \"{}\"; there are: {}", set.path(), name,
                               known.empty() ? "none" : known));
}

absl::StatusOr<CodedCache> CodeCache(const BlockCodec& codec, const CodedProfile& profile, const KvBlock& exact,
                                     CodecScratch& scratch) {
  const int64_t cells = exact.range.size();
  const int64_t begin = std::min<int64_t>(profile.ends.first, cells);
  const int64_t end = std::max(begin, cells - profile.ends.last);
  ASSIGN_OR_RETURN(const CodedPolicy policy, codec.MakePolicy(profile.steps));
  CodedCache cache{exact, 0};
  RETURN_IF_ERROR(SendEnd(codec.layout(), profile.int8_ends, exact, {0, begin}, cache));
  RETURN_IF_ERROR(SendEnd(codec.layout(), profile.int8_ends, exact, {end, cells}, cache));
  for (int64_t at = begin; at < end; at += kCodedBlockTokens) {
    const TokenRange range{at, std::min(end, at + kCodedBlockTokens)};
    ASSIGN_OR_RETURN(const KvBlock block, Slice(exact, range, exact.layers));
    ASSIGN_OR_RETURN(const std::string bytes, codec.Encode(policy, block, scratch));
    ASSIGN_OR_RETURN(const KvBlock decoded, codec.Decode(policy, bytes, scratch));
    CopyRows(decoded, cache.cells);
    cache.bytes += static_cast<int64_t>(bytes.size());
  }
  return cache;
}

}  // namespace riskkv

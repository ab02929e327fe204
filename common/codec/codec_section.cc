#include "common/codec/codec_section.h"

#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/predictor/safetensors.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace riskkv {
namespace {

using SectionType = SetSection::Type;
using CodecJson = nlohmann::json;

constexpr char kMeanTensor[] = "codec.mean";
constexpr char kScaleTensor[] = "codec.scale";
constexpr char kFrequencyTensor[] = "codec.frequencies";
constexpr char kHalfWeights[] = "f16";
constexpr char kInt8Weights[] = "i8";

std::string UnitTensor(std::size_t unit, const char* what) { return fmt::format("codec.unit.{}.{}", unit, what); }

// A matrix in fp16, or in 8 bits with the scales of its columns beside it.
void PutMatrix(const std::string& name, const std::vector<float>& m, std::vector<int64_t> shape,
               const std::vector<float>& scale, SetSection& section) {
  if (scale.empty()) {
    section.tensors[name] = {std::move(shape), m, SectionType::kF16};
    return;
  }
  SetSection::Tensor integers{std::move(shape), m, SectionType::kI8};
  for (std::size_t i = 0; i < m.size(); ++i) integers.values[i] = std::round(m[i] / scale[i % scale.size()]);
  section.tensors[name] = std::move(integers);
  section.tensors[name + "_scale"] = {{static_cast<int64_t>(scale.size())}, scale, SectionType::kF32};
}

absl::StatusOr<std::vector<float>> GetMatrix(const PredictorSet& set, const std::string& name, int64_t rows,
                                             int64_t columns, bool int8, std::vector<float>* scale) {
  ASSIGN_OR_RETURN(std::vector<float> m, set.SectionTensor(name, {rows, columns}));
  if (!int8) return m;
  ASSIGN_OR_RETURN(*scale, set.SectionTensor(name + "_scale", {columns}));
  for (std::size_t i = 0; i < m.size(); ++i) m[i] *= (*scale)[i % scale->size()];
  return m;
}

absl::StatusOr<CodedPlan> PlanFromJson(const CodecJson& units) {
  CodedPlan plan;
  for (const CodecJson& u : units) {
    CodedUnit unit;
    for (const CodecJson& p : u.at("planes")) unit.planes.push_back({p.at(0).get<int>(), p.at(1).get<int>()});
    unit.conditions = u.at("conditions").get<std::vector<int>>();
    plan.push_back(std::move(unit));
  }
  return plan;
}

absl::StatusOr<std::shared_ptr<const FrequencyTables>> ReadTables(const PredictorSet& set) {
  ASSIGN_OR_RETURN(const std::vector<float> values, set.SectionTensor(kFrequencyTensor, {kRows, kSymbols}));
  std::vector<FrequencyTables::Row> rows(kRows);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] >= 0 && values[i] <= kProbabilityScale && values[i] == static_cast<float>(static_cast<int>(values[i]))))
      return CorruptFile(fmt::format("codec: frequency {} is {}", i, values[i]));
    rows[i / kSymbols][i % kSymbols] = static_cast<uint16_t>(values[i]);
  }
  auto tables = FrequencyTables::Create(rows);
  if (!tables.ok()) return CorruptFile(fmt::format("codec: {}", std::string(tables.status().message())));
  return tables;
}

}  // namespace

SetSection ToSection(const CodecWeights& w, int kv, const std::vector<CodedProfile>& profiles) {
  SetSection section;
  section.name = kCodecSection;
  CodecJson units = CodecJson::array();
  for (std::size_t u = 0; u < w.plan.size(); ++u) {
    CodecJson planes = CodecJson::array();
    for (const CachePlane& p : w.plan[u].planes) planes.push_back({p.layer, p.part});
    units.push_back({{"planes", planes}, {"conditions", w.plan[u].conditions}});
    const int64_t width = UnitWidth(w.plan[u], kv), from = ConditionWidth(w.plan, w.plan[u], kv);
    PutMatrix(UnitTensor(u, "rotation"), w.units[u].rotation, {width, width}, w.units[u].rotation_scale, section);
    section.tensors[UnitTensor(u, "variance")] = {{width}, w.units[u].variance, SectionType::kF32};
    if (from > 0)
      PutMatrix(UnitTensor(u, "predictor"), w.units[u].predictor, {from, width}, w.units[u].predictor_scale, section);
  }
  section.description = CodecJson{{"version", kCodecSectionVersion},
                                  {"weights", w.units.front().rotation_scale.empty() ? kHalfWeights : kInt8Weights},
                                  {"units", units},
                                  {"profiles", CodecJson::parse(CodedProfilesToJson(profiles))}}
                            .dump();
  const int64_t layers = static_cast<int64_t>(w.scale.size()) / 2;
  section.tensors[kMeanTensor] = {{layers, 2, kv}, w.mean, SectionType::kF32};
  section.tensors[kScaleTensor] = {{layers, 2}, w.scale, SectionType::kF32};
  std::vector<float> frequencies;
  for (const FrequencyTables::Row& row : w.tables->rows()) frequencies.insert(frequencies.end(), row.begin(), row.end());
  section.tensors[kFrequencyTensor] = {{kRows, kSymbols}, std::move(frequencies), SectionType::kF32};
  return section;
}

bool HasCodec(const PredictorSet& set) { return !set.SectionDescription(kCodecSection).empty(); }

absl::StatusOr<CodecWeights> ReadCodecWeights(const PredictorSet& set) {
  const std::string description = set.SectionDescription(kCodecSection);
  if (description.empty()) {
    return MakeError(absl::StatusCode::kNotFound, "PREDICTOR_MISSING",
                     fmt::format("{}: the set has no codec: calibrate with --method coded", set.path()));
  }
  const int64_t kv = set.layout().kv(), layers = set.layout().n_layer;
  CodecWeights w;
  std::string weights;
  try {
    const CodecJson j = CodecJson::parse(description);
    const int version = j.at("version").get<int>();
    if (version != kCodecSectionVersion) {
      return MakeError(absl::StatusCode::kFailedPrecondition, "PROTOCOL_VERSION",
                       fmt::format("{}: codec version differs: the file has {}, this program reads {}", set.path(), version,
                                   kCodecSectionVersion));
    }
    weights = j.value("weights", kHalfWeights);
    ASSIGN_OR_RETURN(w.plan, PlanFromJson(j.at("units")));
  } catch (const CodecJson::exception& e) {
    return CorruptFile(fmt::format("{}: codec: {}", set.path(), e.what()));
  }
  if (weights != kHalfWeights && weights != kInt8Weights)
    return CorruptFile(fmt::format("{}: codec: unknown weights \"{}\"", set.path(), weights));
  const bool int8 = weights == kInt8Weights;
  if (absl::Status s = CheckPlan(w.plan, set.layout().n_layer); !s.ok())
    return CorruptFile(fmt::format("{}: {}", set.path(), std::string(s.message())));
  for (std::size_t u = 0; u < w.plan.size(); ++u) {
    const int64_t width = UnitWidth(w.plan[u], set.layout().kv());
    const int64_t from = ConditionWidth(w.plan, w.plan[u], set.layout().kv());
    UnitWeights unit;
    ASSIGN_OR_RETURN(unit.rotation, GetMatrix(set, UnitTensor(u, "rotation"), width, width, int8, &unit.rotation_scale));
    ASSIGN_OR_RETURN(unit.variance, set.SectionTensor(UnitTensor(u, "variance"), {width}));
    if (from > 0) {
      ASSIGN_OR_RETURN(unit.predictor,
                       GetMatrix(set, UnitTensor(u, "predictor"), from, width, int8, &unit.predictor_scale));
    }
    w.units.push_back(std::move(unit));
  }
  ASSIGN_OR_RETURN(w.mean, set.SectionTensor(kMeanTensor, {layers, 2, kv}));
  ASSIGN_OR_RETURN(w.scale, set.SectionTensor(kScaleTensor, {layers, 2}));
  ASSIGN_OR_RETURN(w.tables, ReadTables(set));
  if (absl::Status s = CheckCodecWeights(w, set.layout().n_layer, set.layout().kv()); !s.ok())
    return CorruptFile(fmt::format("{}: {}", set.path(), std::string(s.message())));
  return w;
}

absl::StatusOr<std::unique_ptr<BlockCodec>> OpenCodec(const PredictorSet& set) {
  ASSIGN_OR_RETURN(CodecWeights weights, ReadCodecWeights(set));
  return BlockCodec::Create(set.layout(), std::move(weights));
}

}  // namespace riskkv

#include "common/predictor/predictor_set.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/predictor/mapped_file.h"
#include "common/predictor/safetensors.h"
#include "common/predictor/set_format.h"
#include "common/predictor/set_json.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/fp16.h"

namespace riskkv {
namespace {

// The digest a file's name promises, or "" when the name is not one.
std::string DigestInName(const std::string& path) {
  const std::filesystem::path p(path);
  const std::string stem = p.stem().string();
  if (p.extension() != PredictorSet::kExtension || stem.size() != 64) return "";
  const bool hex = stem.find_first_not_of("0123456789abcdef") == std::string::npos;
  return hex ? stem : "";
}

// `also` is what else is wrong with the file (it may be truncated), or OK.
absl::Status DigestError(std::string_view expected, std::string_view found,
                         const absl::Status& also = absl::OkStatus()) {
  std::string message = fmt::format("digest differs: expected {}, the file has {}", expected, found);
  if (!also.ok()) message += fmt::format(" ({})", std::string(also.message().data(), also.message().size()));
  return MakeError(absl::StatusCode::kDataLoss, "DIGEST", message);
}

absl::Status CheckVersion(const Safetensors& file) {
  auto format = file.metadata.find("format");
  if (format == file.metadata.end() || format->second != kSetFormatName) {
    return CorruptFile(fmt::format("not a predictor set: __metadata__.format is not \"{}\"", kSetFormatName));
  }
  auto version = file.metadata.find("format_version");
  const std::string found = version == file.metadata.end() ? "none" : version->second;
  if (found == kSetFormatVersion) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, "PROTOCOL_VERSION",
                   fmt::format("format version differs: the file has {}, this program reads {}", found,
                               kSetFormatVersion));
}

// One tensor of a known shape and type.
absl::StatusOr<const void*> FindTensor(const Safetensors& file, const std::string& name,
                                       const std::string& dtype, const std::vector<int64_t>& shape) {
  auto it = file.tensors.find(name);
  if (it == file.tensors.end()) return CorruptFile(fmt::format("tensor {} is missing", name));
  if (it->second.dtype != dtype || it->second.shape != shape) {
    return CorruptFile(fmt::format("tensor {} is {} of {} bytes, wanted {} for {} elements", name,
                               it->second.dtype, it->second.data.size(), dtype,
                               shape.empty() ? 0 : shape[0] * (shape.size() > 1 ? shape[1] : 1)));
  }
  return static_cast<const void*>(it->second.data.data());
}

}  // namespace

struct PredictorSet::Mapping {
  std::unique_ptr<MappedFile> file;
};

PredictorSet::PredictorSet() = default;
PredictorSet::~PredictorSet() = default;

absl::StatusOr<std::shared_ptr<const PredictorSet>> PredictorSet::Open(const std::string& path,
                                                                       std::string_view expected_digest) {
  auto mapped = MappedFile::Open(path);
  if (absl::IsNotFound(mapped.status())) {
    return MakeError(absl::StatusCode::kNotFound, "PREDICTOR_MISSING",
                     std::string(mapped.status().message().data(), mapped.status().message().size()));
  }
  if (!mapped.ok()) return mapped.status();
  std::shared_ptr<PredictorSet> set(new PredictorSet);
  set->mapping_ = std::make_unique<Mapping>(Mapping{*std::move(mapped)});
  set->bytes_ = set->mapping_->file->bytes();
  set->path_ = path;
  const std::string named = DigestInName(path);
  if (absl::Status status = set->Load(expected_digest.empty() ? named : expected_digest); !status.ok()) {
    return Annotate(status, path);
  }
  return std::shared_ptr<const PredictorSet>(std::move(set));
}

absl::StatusOr<std::shared_ptr<const PredictorSet>> PredictorSet::FromBytes(
    std::string bytes, const std::string& name, std::string_view expected_digest) {
  std::shared_ptr<PredictorSet> set(new PredictorSet);
  set->owned_ = std::move(bytes);
  set->bytes_ = set->owned_;
  set->path_ = name;
  if (absl::Status status = set->Load(expected_digest); !status.ok()) return Annotate(status, name);
  return std::shared_ptr<const PredictorSet>(std::move(set));
}

absl::Status PredictorSet::Load(std::string_view expected_digest) {
  digest_ = Sha256Hex(bytes_);
  absl::StatusOr<Safetensors> file = ParseSafetensors(bytes_);
  // The digest comes first: a damaged header is not believed, only quoted.
  if (!expected_digest.empty() && expected_digest != digest_)
    return DigestError(expected_digest, digest_, file.status());
  if (!file.ok()) return file.status();
  RETURN_IF_ERROR(CheckVersion(*file));
  if (expected_digest.empty()) {
    ASSIGN_OR_RETURN(const ContentDigest content, ReadContentDigest(*file));
    if (content.stated != content.computed) return DigestError(content.stated, content.computed);
  }
  auto description = file->metadata.find(kSetDescriptionKey);
  if (description == file->metadata.end())
    return CorruptFile(fmt::format("__metadata__.{} is missing", kSetDescriptionKey));
  const nlohmann::json j = nlohmann::json::parse(description->second, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object() || !j.contains("fingerprint") || !j.contains("weights")) {
    return CorruptFile(fmt::format("__metadata__.{} is not a set description", kSetDescriptionKey));
  }
  ASSIGN_OR_RETURN(fingerprint_, FingerprintFromJson(j["fingerprint"]));
  ASSIGN_OR_RETURN(info_, SetInfoFromJson(j, fingerprint_.layout));
  const std::string weights = j["weights"].is_string() ? j["weights"].get<std::string>() : "";
  if (weights != "f32" && weights != "f16")
    return CorruptFile(fmt::format("unknown weight type \"{}\"", weights));
  type_ = weights == "f16" ? kernels::WeightType::kF16 : kernels::WeightType::kF32;
  const std::string dtype = type_ == kernels::WeightType::kF16 ? "F16" : "F32";
  for (std::size_t g = 0; g < info_.groups.size(); ++g) {
    const int64_t d_in = InputWidth(info_.groups[g].spec, layout().kv());
    const int64_t d_out = OutputWidth(info_.groups[g].spec, layout().kv());
    Tensors t;
    ASSIGN_OR_RETURN(t.b, FindTensor(*file, WeightTensorName(static_cast<int>(g)), dtype, {d_in, d_out}));
    ASSIGN_OR_RETURN(t.bias, FindTensor(*file, BiasTensorName(static_cast<int>(g)), dtype, {d_out}));
    tensors_.push_back(t);
  }
  description_ = description->second;
  all_tensors_ = std::move(file->tensors);
  return absl::OkStatus();
}

std::string PredictorSet::SectionDescription(std::string_view name) const {
  const nlohmann::json j = nlohmann::json::parse(description_, nullptr, /*allow_exceptions=*/false);
  const auto it = j.find(std::string(name));
  return it == j.end() ? "" : it->dump();
}

absl::StatusOr<std::vector<float>> PredictorSet::SectionTensor(const std::string& name,
                                                               const std::vector<int64_t>& shape) const {
  const auto it = all_tensors_.find(name);
  if (it == all_tensors_.end()) return Annotate(CorruptFile(fmt::format("tensor {} is missing", name)), path_);
  const TensorView& tensor = it->second;
  if (tensor.shape != shape) {
    return Annotate(CorruptFile(fmt::format("tensor {} is [{}], wanted [{}]", name, fmt::join(tensor.shape, ","),
                                            fmt::join(shape, ","))),
                    path_);
  }
  if (tensor.dtype == "F16") {
    std::vector<uint16_t> half(tensor.data.size() / sizeof(uint16_t));
    std::memcpy(half.data(), tensor.data.data(), tensor.data.size());
    std::vector<float> values(half.size());
    kernels::HalfToFloat(half.data(), values.data(), half.size());
    return values;
  }
  if (tensor.dtype == "I8") {
    std::vector<float> values;
    for (char c : tensor.data) values.push_back(static_cast<float>(static_cast<int8_t>(c)));
    return values;
  }
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

int64_t PredictorSet::SectionBytes(std::string_view name) const {
  const std::string prefix = std::string(name) + ".";
  int64_t bytes = 0;
  for (const auto& [tensor, view] : all_tensors_) {
    if (tensor.rfind(prefix, 0) == 0) bytes += static_cast<int64_t>(view.data.size());
  }
  return bytes;
}

absl::StatusOr<const Profile*> PredictorSet::FindProfile(std::string_view name) const {
  auto it = info_.profiles.find(std::string(name));
  if (it != info_.profiles.end()) return &it->second;
  std::string known;
  for (const auto& [n, p] : info_.profiles) known += (known.empty() ? "" : ", ") + n;
  return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_PROFILE",
                   fmt::format("{}: no profile \"{}\"; there are: {}", path_, name, known));
}

const Profile& PredictorSet::BestGatedProfile() const {
  const Profile* best = &info_.profiles.at("exact");
  for (const auto& [name, p] : info_.profiles) {
    if (!p.gated) continue;
    const bool omits_more = p.omitted_layers.size() > best->omitted_layers.size();
    // Equal topologies: the tighter budget is the stronger promise.
    const bool tighter = p.omitted_layers.size() == best->omitted_layers.size() && !p.groups.empty() &&
                         p.epsilon < best->epsilon;
    if (omits_more || tighter) best = &p;
  }
  return *best;
}

const LayerCalibration* PredictorSet::FindLayer(int layer) const {
  for (const GroupInfo& g : info_.groups) {
    for (const LayerCalibration& l : g.layers) {
      if (l.layer == layer) return &l;
    }
  }
  return nullptr;
}

absl::Status PredictorSet::CheckModel(const Fingerprint& model) const {
  return Annotate(CheckCompatible(fingerprint_, model),
                  fmt::format("predictor set {} (source) and this model (destination)", path_));
}

kernels::PredictorSetView PredictorSet::View() const {
  kernels::PredictorSetView view;
  view.n_head_kv = layout().n_head_kv;
  view.head_dim = layout().head_dim;
  view.rope = layout().rope;
  for (std::size_t g = 0; g < tensors_.size(); ++g) {
    const GroupSpec& spec = info_.groups[g].spec;
    view.groups.push_back({spec.anchors, spec.targets, tensors_[g].b, tensors_[g].bias, type_});
  }
  return view;
}

int64_t PredictorSet::GroupBytes(int group) const {
  const GroupSpec& spec = info_.groups.at(static_cast<std::size_t>(group)).spec;
  const int64_t element = type_ == kernels::WeightType::kF16 ? 2 : 4;
  return (InputWidth(spec, layout().kv()) + 1LL) * OutputWidth(spec, layout().kv()) * element;
}

int64_t PredictorSet::weights_bytes() const {
  int64_t bytes = 0;
  for (std::size_t g = 0; g < info_.groups.size(); ++g) bytes += GroupBytes(static_cast<int>(g));
  return bytes;
}

int64_t PredictorSet::ProfileBytes(const Profile& profile) const {
  int64_t bytes = 0;
  for (int g : profile.groups) bytes += GroupBytes(g);
  return bytes;
}

}  // namespace riskkv

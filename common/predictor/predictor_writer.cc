// Writing a predictor set: see predictor_set.h.
#include <cmath>
#include <cstdint>
#include <filesystem>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/predictor/mapped_file.h"
#include "common/predictor/predictor_set.h"
#include "common/predictor/set_format.h"
#include "common/predictor/set_json.h"
#include "fmt/format.h"
#include "kernels/fp16.h"

namespace riskkv {
namespace {

using Type = SetSection::Type;

const char* DtypeName(Type type) { return type == Type::kF32 ? "F32" : type == Type::kF16 ? "F16" : "I8"; }

// INVALID_ARGUMENT for one that is not finite there.
absl::StatusOr<std::string> EncodeHalf(const std::vector<float>& values, const std::string& name) {
  std::vector<uint16_t> half(values.size());
  kernels::FloatToHalf(values.data(), half.data(), values.size());
  if (!kernels::AllFinite(half.data(), half.size()))
    return absl::InvalidArgumentError(fmt::format("tensor {}: a weight does not fit fp16", name));
  return std::string(reinterpret_cast<const char*>(half.data()), half.size() * sizeof(uint16_t));
}

// INVALID_ARGUMENT for one that is no integer of 8 bits.
absl::StatusOr<std::string> EncodeBytes(const std::vector<float>& values, const std::string& name) {
  std::string out(values.size(), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != std::round(values[i]) || std::fabs(values[i]) > 127)
      return absl::InvalidArgumentError(fmt::format("tensor {}: {} is no integer of 8 bits", name, values[i]));
    out[i] = static_cast<char>(static_cast<int8_t>(values[i]));
  }
  return out;
}

// The weights in their file form.
absl::StatusOr<std::string> Encode(const std::vector<float>& values, Type type, const std::string& name) {
  for (float v : values) {
    if (!std::isfinite(v))
      return absl::InvalidArgumentError(fmt::format("tensor {}: a weight is {}", name, v));
  }
  if (type == Type::kF16) return EncodeHalf(values, name);
  if (type == Type::kI8) return EncodeBytes(values, name);
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

absl::Status CheckShape(const std::vector<float>& values, int64_t wanted, const std::string& name) {
  if (static_cast<int64_t>(values.size()) == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("tensor {} has {} weights, its group needs {}", name, values.size(), wanted));
}

absl::Status AsInvalidArgument(const absl::Status& status) {
  return status.ok() ? status : absl::InvalidArgumentError(status.message());
}

// Encoded tensors by name, and views onto them for the container.
struct EncodedTensors {
  std::map<std::string, std::string> bytes;
  std::map<std::string, TensorView> views;

  absl::Status Add(const std::string& name, const std::vector<float>& values, std::vector<int64_t> shape,
                   Type type) {
    int64_t count = 1;
    for (int64_t d : shape) count *= d;
    RETURN_IF_ERROR(CheckShape(values, count, name));
    ASSIGN_OR_RETURN(bytes[name], Encode(values, type, name));
    views[name] = {DtypeName(type), std::move(shape), bytes[name]};
    return absl::OkStatus();
  }
};

// The container around tensors and description, its digest stamped.
absl::StatusOr<std::string> Finished(const nlohmann::json& description, const std::map<std::string, TensorView>& tensors) {
  const std::map<std::string, std::string> metadata = {{"format", kSetFormatName},
                                                       {"format_version", kSetFormatVersion},
                                                       {kContentDigestKey, std::string(64, '0')},
                                                       {kSetDescriptionKey, description.dump()}};
  std::string out = WriteSafetensors(metadata, tensors);
  RETURN_IF_ERROR(StampContentDigest(out));
  return out;
}

absl::Status AddSection(const SetSection& section, EncodedTensors& encoded, nlohmann::json& description) {
  description[section.name] = nlohmann::json::parse(section.description, nullptr, /*allow_exceptions=*/false);
  if (!description[section.name].is_object())
    return absl::InvalidArgumentError(fmt::format("section {}: its description is no JSON object", section.name));
  for (const auto& [name, tensor] : section.tensors) {
    if (name.rfind(section.name + ".", 0) != 0)
      return absl::InvalidArgumentError(fmt::format("section {}: tensor {} is not of it", section.name, name));
    RETURN_IF_ERROR(encoded.Add(name, tensor.values, tensor.shape, tensor.type));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> SerializePredictorSet(const Fingerprint& fingerprint, const SetInfo& info,
                                                  const std::vector<GroupTensors>& tensors,
                                                  kernels::WeightType type, const SetSection* section) {
  if (tensors.size() != info.groups.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} groups of tensors for {} groups", tensors.size(), info.groups.size()));
  }
  RETURN_IF_ERROR(AsInvalidArgument(CheckSetInfo(info, fingerprint.layout)));
  const int kv = fingerprint.layout.kv();
  const Type element = type == kernels::WeightType::kF16 ? Type::kF16 : Type::kF32;
  EncodedTensors encoded;
  for (std::size_t g = 0; g < tensors.size(); ++g) {
    const int64_t d_in = InputWidth(info.groups[g].spec, kv), d_out = OutputWidth(info.groups[g].spec, kv);
    RETURN_IF_ERROR(encoded.Add(WeightTensorName(static_cast<int>(g)), tensors[g].b, {d_in, d_out}, element));
    RETURN_IF_ERROR(encoded.Add(BiasTensorName(static_cast<int>(g)), tensors[g].bias, {d_out}, element));
  }
  nlohmann::json description = ToJson(info);
  description["fingerprint"] = ToJson(fingerprint);
  description["weights"] = type == kernels::WeightType::kF16 ? "f16" : "f32";
  if (section != nullptr) RETURN_IF_ERROR(AddSection(*section, encoded, description));
  return Finished(description, encoded.views);
}

absl::StatusOr<std::string> WithSection(const PredictorSet& set, const SetSection& section) {
  ASSIGN_OR_RETURN(const Safetensors file, ParseSafetensors(set.bytes()));
  nlohmann::json description = nlohmann::json::parse(file.metadata.at(kSetDescriptionKey), nullptr, false);
  EncodedTensors encoded;
  for (const auto& [name, view] : file.tensors) {
    if (name.rfind(section.name + ".", 0) != 0) encoded.views[name] = view;
  }
  RETURN_IF_ERROR(AddSection(section, encoded, description));
  return Finished(description, encoded.views);
}

absl::StatusOr<std::string> WritePredictorSet(const std::string& bytes, const std::string& destination) {
  namespace fs = std::filesystem;
  if (destination.empty())
    return absl::InvalidArgumentError("no file or folder to write the predictor set to");
  std::error_code error;
  const bool folder = destination.back() == '/' || fs::is_directory(destination, error);
  const fs::path path =
      folder ? fs::path(destination) / (Sha256Hex(bytes) + PredictorSet::kExtension) : fs::path(destination);
  if (path.has_parent_path()) {
    fs::create_directories(path.parent_path(), error);
    if (error) {
      return absl::InternalError(
          fmt::format("cannot make the folder {}: {}", path.parent_path().string(), error.message()));
    }
  }
  RETURN_IF_ERROR(WriteFileAtomically(path.string(), bytes));
  return path.string();
}

}  // namespace riskkv

// A predictor set: one file with every folded predictor of a model, named by its SHA-256. Format:
// common/README.md.
#ifndef RISKKV_COMMON_PREDICTOR_PREDICTOR_SET_H_
#define RISKKV_COMMON_PREDICTOR_PREDICTOR_SET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"
#include "common/predictor/layout_groups.h"
#include "common/predictor/profile.h"
#include "common/predictor/safetensors.h"
#include "kernels/backend.h"

namespace riskkv {

// One group's folded predictor on its way into a file: Z = X B + d (kernels/backend.h, GroupWeights).
struct GroupTensors {
  std::vector<float> b;     // [d_in, d_out], row-major
  std::vector<float> bias;  // [d_out]
};

// What another library keeps in the same file (the codec of coded profiles): tensors whose names begin with
// "<name>.", and a JSON object under <name> in the description. A set without it, and a reader that does not know it,
// are whole.
struct SetSection {
  enum class Type { kF32, kF16, kI8 };
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> values;  // row-major; of kI8: integers, -127 to 127
    Type type = Type::kF32;
  };
  std::string name;
  std::string description;  // JSON text
  std::map<std::string, Tensor> tensors;
};

// Immutable and thread-safe once opened. Weights stay in the mapped file.
class PredictorSet {
 public:
  inline static constexpr char kExtension[] = ".riskkv";

  // Maps and verifies a file: structure, bounds of every tensor, digest. `expected_digest` may be empty; a
  // file named
  // "<64 hex>.riskkv" must have that digest in any case. Errors name the file:
  //   NOT_FOUND          no such file (PREDICTOR_MISSING)
  //   DATA_LOSS          truncated, malformed, or "digest" with both values (DIGEST)
  //   FAILED_PRECONDITION  another format version, with both (PROTOCOL_VERSION)
  static absl::StatusOr<std::shared_ptr<const PredictorSet>> Open(const std::string& path,
                                                                  std::string_view expected_digest = "");
  // The same over bytes held in memory (fetched from a peer, tests). `name` stands in messages.
  static absl::StatusOr<std::shared_ptr<const PredictorSet>> FromBytes(std::string bytes,
                                                                       const std::string& name,
                                                                       std::string_view expected_digest = "");
  ~PredictorSet();
  PredictorSet(const PredictorSet&) = delete;
  PredictorSet& operator=(const PredictorSet&) = delete;

  const std::string& digest() const { return digest_; }
  const std::string& path() const { return path_; }
  const Fingerprint& fingerprint() const { return fingerprint_; }
  const KvLayout& layout() const { return fingerprint_.layout; }
  const SetInfo& info() const { return info_; }
  const std::vector<GroupInfo>& groups() const { return info_.groups; }
  const std::map<std::string, Profile>& profiles() const { return info_.profiles; }
  kernels::WeightType weight_type() const { return type_; }
  // "f32" or "f16", as in proto PredictorSetInfo.
  const char* weight_type_name() const { return type_ == kernels::WeightType::kF16 ? "f16" : "f32"; }

  // NOT_FOUND (UNKNOWN_PROFILE) names the profile and lists those there are.
  absl::StatusOr<const Profile*> FindProfile(std::string_view name) const;
  // The gated profile that omits most layers; "exact" when there is no other.
  const Profile& BestGatedProfile() const;
  // What is recorded about an omitted layer; nullptr for a layer that no group targets.
  const LayerCalibration* FindLayer(int layer) const;

  // FAILED_PRECONDITION (MODEL_MISMATCH and the like) naming the file, the field and both values when the set
  // was calibrated for another model than `model`.
  absl::Status CheckModel(const Fingerprint& model) const;

  // A section's JSON text; "" when the file has none.
  std::string SectionDescription(std::string_view name) const;
  // One of its tensors, widened to fp32. DATA_LOSS (CORRUPT_FILE) naming it when it is missing or of another shape.
  absl::StatusOr<std::vector<float>> SectionTensor(const std::string& name, const std::vector<int64_t>& shape) const;
  // Bytes of the tensors of a section.
  int64_t SectionBytes(std::string_view name) const;

  // For Backend::Upload. Pointers into the mapping: valid while this object lives.
  kernels::PredictorSetView View() const;

  int64_t file_bytes() const { return static_cast<int64_t>(bytes_.size()); }
  // (d_in + 1) * d_out * bytes of a weight.
  int64_t GroupBytes(int group) const;
  // Over all groups / over the groups of a profile: M_pred of design.md 7.
  int64_t weights_bytes() const;
  int64_t ProfileBytes(const Profile& profile) const;
  // The file's bytes, for serving it to a peer.
  std::string_view bytes() const { return bytes_; }

 private:
  struct Mapping;
  struct Tensors {
    const void* b = nullptr;
    const void* bias = nullptr;
  };
  PredictorSet();
  absl::Status Load(std::string_view expected_digest);

  std::unique_ptr<Mapping> mapping_;
  std::string owned_;
  std::string_view bytes_;
  std::string path_;
  std::string digest_;
  Fingerprint fingerprint_;
  SetInfo info_;
  kernels::WeightType type_ = kernels::WeightType::kF32;
  std::vector<Tensors> tensors_;
  std::string description_;                     // the whole JSON text
  std::map<std::string, TensorView> all_tensors_;  // views into bytes_
};

// The bytes of a set's file. Deterministic. INVALID_ARGUMENT for tensors that do not fit their groups,
// profiles that name groups that are not there, and weights that are not finite (in fp16: that overflow).
absl::StatusOr<std::string> SerializePredictorSet(const Fingerprint& fingerprint, const SetInfo& info,
                                                  const std::vector<GroupTensors>& tensors,
                                                  kernels::WeightType type, const SetSection* section = nullptr);
// The bytes of `set` with this section in place of one of its name, all else as it is.
absl::StatusOr<std::string> WithSection(const PredictorSet& set, const SetSection& section);

// Writes `bytes` whole or not at all: temporary file beside it, fsync, rename. `destination` is a folder (it
// ends with '/' or exists as one; the file is then "<digest>.riskkv") or a file name. Returns the path.
// RESOURCE_EXHAUSTED names the file and the bytes wanted when the disk is full; nothing is left behind.
absl::StatusOr<std::string> WritePredictorSet(const std::string& bytes, const std::string& destination);

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_PREDICTOR_SET_H_

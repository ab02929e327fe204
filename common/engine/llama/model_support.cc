#include "common/engine/llama/model_support.h"

#include <cmath>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

// What llama.cpp asserts (and aborts) above.
constexpr double kMaxLayers = 512;

// Measured on SmolLM2-135M Q4_1: threads, foreign cells, other requests in the batch and cell order move a
// decoded token's log-probability by up to this much (docs: "Numbers depend on layout").
constexpr double kLogprobNoise = 0.2;

absl::Status Refuse(const GgufFile& file, std::string_view feature) {
  return absl::FailedPreconditionError(fmt::format("model {}: {} not supported", file.path(), feature));
}

absl::StatusOr<int> Count(const GgufFile& file, const std::string& key, double max) {
  const std::optional<double> value = file.UniformNumber(key);
  if (!value) {
    if (file.Has(key)) return Refuse(file, fmt::format("{} that differs between layers is", key));
    return absl::InvalidArgumentError(fmt::format("model {}: {} is missing", file.path(), key));
  }
  if (!(*value >= 1 && *value <= max) || *value != std::floor(*value)) {
    return absl::InvalidArgumentError(fmt::format("model {}: {} is {}", file.path(), key, *value));
  }
  return static_cast<int>(*value);
}

// Features that change what a cache cell means, whatever the architecture.
absl::Status CheckFeatures(const GgufFile& file, const std::string& arch) {
  struct Feature {
    const char* key;
    const char* name;
  };
  constexpr Feature kFeatures[] = {
      {".attention.sliding_window", "sliding window attention is"},
      {".attention.kv_lora_rank", "multi-head latent attention (MLA) is"},
      {".attention.key_length_mla", "multi-head latent attention (MLA) is"},
      {".ssm.state_size", "recurrent (state space) layers are"},
      {".wkv.head_size", "recurrent (RWKV) layers are"},
      {".attention.indexer.head_count", "sparse attention with an indexer is"},
  };
  for (const Feature& f : kFeatures) {
    if (file.UniformNumber(arch + f.key).value_or(0) != 0) return Refuse(file, f.name);
  }
  if (file.Number("split.count").value_or(0) > 1) return Refuse(file, "a model split over several files is");
  return absl::OkStatus();
}

absl::Status CheckRopeScaling(const GgufFile& file, const std::string& arch, const std::string& type) {
  if (type != "none" && type != "linear") return Refuse(file, fmt::format("rope scaling '{}' is", type));
  if (file.Number(arch + ".rope.scaling.attn_factor").value_or(1) != 1) {
    return Refuse(file, "a rope magnitude (rope.scaling.attn_factor) is");
  }
  if (file.Number(arch + ".rope.scaling.alpha").value_or(0) != 0) {
    return Refuse(file, "dynamic rope scaling (rope.scaling.alpha) is");
  }
  for (const char* tensor : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (file.HasTensor(tensor)) return Refuse(file, fmt::format("long rope (tensor {}) is", tensor));
  }
  return absl::OkStatus();
}

absl::StatusOr<RopeParams> ReadRope(const GgufFile& file, const std::string& arch, int head_dim) {
  // llama.cpp takes a missing type as linear; then a missing factor as 1.
  const std::string type = file.String(arch + ".rope.scaling.type").value_or("linear");
  RETURN_IF_ERROR(CheckRopeScaling(file, arch, type));
  RopeParams rope;
  rope.pairing = arch == "qwen2" ? kernels::RopePairing::kHalves : kernels::RopePairing::kNeighbours;
  const double rotary = file.Number(arch + ".rope.dimension_count").value_or(head_dim);
  if (rotary != head_dim) {
    return Refuse(file, fmt::format("partial rotary embedding ({} of {} dimensions) is", rotary, head_dim));
  }
  rope.rotary_dim = head_dim;
  rope.freq_base = static_cast<float>(file.Number(arch + ".rope.freq_base").value_or(10000.0));
  if (type == "linear") {
    const double old_name = file.Number(arch + ".rope.scale_linear").value_or(0);
    const float factor = static_cast<float>(file.Number(arch + ".rope.scaling.factor").value_or(old_name));
    rope.freq_scale = factor == 0 ? 1.0f : 1.0f / factor;
  }
  if (!std::isfinite(rope.freq_base) || rope.freq_base <= 0 || !std::isfinite(rope.freq_scale) ||
      rope.freq_scale <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("model {}: rope base {}, scale {}", file.path(), rope.freq_base, rope.freq_scale));
  }
  // Llama 3.1; llama.cpp's qwen2 graph does not look at it.
  if (arch == "llama" && file.HasTensor("rope_freqs.weight")) {
    ASSIGN_OR_RETURN(rope.freq_factors, file.FloatTensor("rope_freqs.weight"));
    if (rope.freq_factors.size() != static_cast<std::size_t>(rope.rotary_dim / 2)) {
      return absl::InvalidArgumentError(fmt::format("model {}: rope_freqs.weight has {} values, expected {}",
                                                    file.path(), rope.freq_factors.size(),
                                                    rope.rotary_dim / 2));
    }
    for (float f : rope.freq_factors) {
      if (!std::isfinite(f) || f <= 0) {
        return absl::InvalidArgumentError(
            fmt::format("model {}: rope_freqs.weight holds {}", file.path(), f));
      }
    }
  }
  return rope;
}

absl::StatusOr<int> ReadHeadDim(const GgufFile& file, const std::string& arch, int n_embd, int n_head) {
  const double fallback = std::floor(static_cast<double>(n_embd) / n_head);
  const double key = file.Number(arch + ".attention.key_length").value_or(fallback);
  const double value = file.Number(arch + ".attention.value_length").value_or(fallback);
  if (key != value) return Refuse(file, fmt::format("keys of {} and values of {} elements are", key, value));
  if (!(key >= 2 && key <= 4096) || std::fmod(key, 2.0) != 0) {
    return absl::InvalidArgumentError(fmt::format("model {}: heads of {} elements", file.path(), key));
  }
  return static_cast<int>(key);
}

}  // namespace

absl::StatusOr<ModelFacts> ReadModelFacts(const GgufFile& file) {
  const std::string arch = file.String("general.architecture").value_or("");
  if (arch.empty())
    return absl::InvalidArgumentError(fmt::format("model {}: general.architecture is missing", file.path()));
  RETURN_IF_ERROR(CheckFeatures(file, arch));
  if (arch != "llama" && arch != "qwen2") {
    return Refuse(file, fmt::format("architecture '{}' (llama and qwen2 are) is", arch));
  }
  ModelFacts facts;
  facts.name = file.String("general.name").value_or("");
  facts.fingerprint.architecture = arch;
  facts.logprob_noise = kLogprobNoise;
  KvLayout& layout = facts.fingerprint.layout;
  ASSIGN_OR_RETURN(layout.n_layer, Count(file, arch + ".block_count", kMaxLayers));
  ASSIGN_OR_RETURN(facts.n_embd, Count(file, arch + ".embedding_length", 1 << 20));
  ASSIGN_OR_RETURN(facts.n_head, Count(file, arch + ".attention.head_count", 1 << 16));
  layout.n_head_kv = facts.n_head;
  if (file.Has(arch + ".attention.head_count_kv")) {
    ASSIGN_OR_RETURN(layout.n_head_kv, Count(file, arch + ".attention.head_count_kv", 1 << 16));
  }
  ASSIGN_OR_RETURN(layout.head_dim, ReadHeadDim(file, arch, facts.n_embd, facts.n_head));
  ASSIGN_OR_RETURN(layout.rope, ReadRope(file, arch, layout.head_dim));
  facts.fingerprint.tokenizer_digest = file.TokenizerDigest();
  return facts;
}

}  // namespace riskkv

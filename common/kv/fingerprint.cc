// Fingerprints: comparing and naming them.
#include <string>
#include <vector>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/kv/layout.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace riskkv {
namespace {

// One field as text: equal text means equal value (floats in hexadecimal, so no digit is lost).
struct Field {
  const char* name;
  const char* reason;
  std::string value;
};

const char* PairingName(kernels::RopePairing pairing) {
  switch (pairing) {
    case kernels::RopePairing::kNone:
      return "none";
    case kernels::RopePairing::kNeighbours:
      return "neighbours";
    case kernels::RopePairing::kHalves:
      return "halves";
  }
  return "unknown";
}

std::string Exact(float v) { return fmt::format("{} ({:a})", v, v); }

std::string Factors(const std::vector<float>& factors) {
  if (factors.empty()) return "none";
  std::string all;
  for (float f : factors) all += fmt::format("{:a},", f);
  return fmt::format("{} factors {}", factors.size(), Sha256Hex(all).substr(0, 16));
}

// Every field but the protocol range, which is negotiated and says nothing about the cells.
std::vector<Field> Fields(const Fingerprint& f) {
  constexpr const char* kModel = "MODEL_MISMATCH";
  constexpr const char* kRope = "ROPE_MISMATCH";
  const RopeParams& rope = f.layout.rope;
  return {
      {"layout_version", "PROTOCOL_VERSION", fmt::format("{}", f.layout_version)},
      {"architecture", kModel, f.architecture},
      {"n_layer", kModel, fmt::format("{}", f.layout.n_layer)},
      {"n_head_kv", kModel, fmt::format("{}", f.layout.n_head_kv)},
      {"head_dim", kModel, fmt::format("{}", f.layout.head_dim)},
      {"cache_type", "DTYPE_MISMATCH", f.cache_type},
      {"rope.pairing", kRope, PairingName(rope.pairing)},
      {"rope.rotary_dim", kRope, fmt::format("{}", rope.rotary_dim)},
      {"rope.freq_base", kRope, Exact(rope.freq_base)},
      {"rope.freq_scale", kRope, Exact(rope.freq_scale)},
      {"rope.freq_factors", kRope, Factors(rope.freq_factors)},
      {"tokenizer_digest", kModel, f.tokenizer_digest},
      {"weights_digest", kModel, f.weights_digest},
  };
}

absl::Status Mismatch(std::string_view reason, std::string_view field, std::string_view a,
                      std::string_view b) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason,
                   fmt::format("{} differs: source {}, destination {}", field, a, b));
}

}  // namespace

absl::Status CheckCompatible(const Fingerprint& source, const Fingerprint& destination) {
  if (source.protocol_max < destination.protocol_min || destination.protocol_max < source.protocol_min) {
    return Mismatch("PROTOCOL_VERSION", "protocol",
                    fmt::format("{}..{}", source.protocol_min, source.protocol_max),
                    fmt::format("{}..{}", destination.protocol_min, destination.protocol_max));
  }
  const std::vector<Field> a = Fields(source);
  const std::vector<Field> b = Fields(destination);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].value != b[i].value) return Mismatch(a[i].reason, a[i].name, a[i].value, b[i].value);
  }
  return absl::OkStatus();
}

std::string FingerprintDigest(const Fingerprint& fingerprint) {
  Sha256 sha;
  // Lengths make the text unambiguous: no value can imitate the next field.
  for (const Field& field : Fields(fingerprint)) {
    sha.Update(fmt::format("{}={}:{}\n", field.name, field.value.size(), field.value));
  }
  // The factors again, in full: the field's text only abbreviates their digest.
  for (float v : fingerprint.layout.rope.freq_factors) sha.Update(fmt::format("{:a}\n", v));
  return sha.HexDigest();
}

}  // namespace riskkv

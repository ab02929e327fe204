// The canonical KV layout: what a cache is, whatever engine holds it.
#ifndef RISKKV_COMMON_KV_LAYOUT_H_
#define RISKKV_COMMON_KV_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace riskkv {

using RopeParams = kernels::RopeParams;

// Shape of one model's cache. Elements are fp16; keys are stored after RoPE.
struct KvLayout {
  int n_layer = 0;
  int n_head_kv = 0;
  int head_dim = 0;
  RopeParams rope;
  int kv() const { return n_head_kv * head_dim; }                        // elements of K (or V) of one token in one layer
  int64_t bytes_per_token_layer() const { return 2LL * kv() * 2; }       // K and V, fp16
  int64_t bytes_per_token() const { return n_layer * bytes_per_token_layer(); }
};

// Absolute token positions [begin, end).
struct TokenRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool operator==(const TokenRange&) const = default;
};

// Cells of some layers over one token range, in the canonical order [layer][K|V][token][head][dim], fp16 little endian,
// keys after RoPE at the token's own position. `layers` is ascending and without doubles.
struct KvBlock {
  TokenRange range;
  std::vector<int> layers;
  int kv = 0;
  std::vector<uint16_t> data;

  static KvBlock Make(const KvLayout& layout, TokenRange range, std::vector<int> layers);
  // Row 0 of K / V of the i-th layer of `layers` (an index, not a layer number): [range.size(), kv].
  uint16_t* k(int i) { return data.data() + Offset(i, 0); }
  uint16_t* v(int i) { return data.data() + Offset(i, 1); }
  const uint16_t* k(int i) const { return data.data() + Offset(i, 0); }
  const uint16_t* v(int i) const { return data.data() + Offset(i, 1); }
  // Index of a layer number in `layers`, or -1.
  int IndexOf(int layer) const;
  int64_t bytes() const { return static_cast<int64_t>(data.size()) * 2; }
  // SHA-256 of the canonical bytes.
  std::string Digest() const;

 private:
  std::size_t Offset(int i, int part) const {
    return (static_cast<std::size_t>(i) * 2 + part) * static_cast<std::size_t>(range.size()) * kv;
  }
};

std::vector<int> AllLayers(const KvLayout& layout);
// `all` without `omit`.
std::vector<int> LayersExcept(const KvLayout& layout, const std::vector<int>& omit);
// INVALID_ARGUMENT unless `layers` is ascending, without doubles and within the model / `block` is one of this layout:
// row size, range, layers and element count. For blocks that came from elsewhere.
absl::Status CheckLayers(const KvLayout& layout, const std::vector<int>& layers);
absl::Status CheckBlock(const KvLayout& layout, const KvBlock& block);
// The rows [range] of chosen layers, copied. INVALID_ARGUMENT when they are not in `block`.
absl::StatusOr<KvBlock> Slice(const KvBlock& block, TokenRange range, const std::vector<int>& layers);

// Identity of a model as far as its cache is concerned. Two workers may exchange cells only when all fields agree.
struct Fingerprint {
  int protocol_min = 1, protocol_max = 1;
  std::string architecture;
  std::string weights_digest;    // SHA-256 of the GGUF
  std::string tokenizer_digest;  // SHA-256 over vocabulary, scores, types, merges
  KvLayout layout;
  std::string cache_type = "f16";
  int layout_version = 1;
};

// FAILED_PRECONDITION (MODEL_MISMATCH, ROPE_MISMATCH, DTYPE_MISMATCH, PROTOCOL_VERSION) naming the first field that
// differs and both values; OK when cells may be exchanged.
absl::Status CheckCompatible(const Fingerprint& source, const Fingerprint& destination);
// SHA-256 over all fields but the protocol range: the short name of a fingerprint. Cells may be exchanged exactly when
// the digests are equal and the protocol ranges meet.
std::string FingerprintDigest(const Fingerprint& fingerprint);

}  // namespace riskkv

#endif  // RISKKV_COMMON_KV_LAYOUT_H_

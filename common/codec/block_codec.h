// Codes and decodes token blocks of a cache: codec_weights.h has the equations.
#ifndef RISKKV_COMMON_CODEC_BLOCK_CODEC_H_
#define RISKKV_COMMON_CODEC_BLOCK_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/codec/codec_weights.h"
#include "common/codec/coded_block.h"
#include "common/kv/layout.h"
#include "kernels/codec_backend.h"

namespace riskkv {

// A step for every unit, in units of the planes' scale; infinity omits the unit's residual. Made by
// BlockCodec::MakePolicy. Immutable.
struct CodedPolicy {
  std::vector<float> steps;
  std::vector<std::vector<uint8_t>> classes;  // of the tables, by unit and coefficient; empty where omitted
  uint64_t context = 0;                       // of the weights and the steps: binds blocks to both
};

// The indices of one block: what travels, before and after the entropy coder.
struct QuantisedBlock {
  TokenRange range;
  std::vector<std::vector<int32_t>> units;  // [unit][width, tokens]; empty where omitted
};

// One thread's lists for its calls, kept so that they are allocated once.
struct CodecScratch {
  std::vector<const int32_t*> in;
  std::vector<int32_t*> out;
};

// Immutable and thread-safe; every thread brings a scratch of its own.
class BlockCodec {
 public:
  // The transforms run on `backend`, which must outlive the codec; null: on the CPU, on the calling thread.
  // INVALID_ARGUMENT when the weights do not fit the model (CheckCodecWeights), RESOURCE_EXHAUSTED when they do not fit
  // the device. They are copied there and not kept otherwise.
  static absl::StatusOr<std::unique_ptr<BlockCodec>> Create(const KvLayout& layout, CodecWeights weights,
                                                            kernels::Backend* backend = nullptr);
  ~BlockCodec();

  const KvLayout& layout() const { return layout_; }
  // Plan, means, scales, variances and tables; rotations and predictors are empty.
  const CodecWeights& weights() const { return weights_; }
  uint64_t digest() const { return digest_; }

  // INVALID_ARGUMENT unless there is a positive step for every unit.
  absl::StatusOr<CodedPolicy> MakePolicy(std::vector<float> steps) const;
  absl::StatusOr<CodedPolicy> MakePolicy(float step) const;

  // `block`: all layers, 1 to kCodedBlockTokens tokens. INVALID_ARGUMENT naming what is wrong with it, an element
  // that is not finite included; OUT_OF_RANGE when a residual is too many steps to code: send it exact.
  absl::StatusOr<std::string> Encode(const CodedPolicy& policy, const KvBlock& block, CodecScratch& scratch) const;

  // Any bytes: DATA_LOSS naming what is wrong with them, FAILED_PRECONDITION (with both digests) when they were
  // coded with other weights or steps, OUT_OF_RANGE when a decoded element does not fit fp16. Indices are
  // decoded without reference to decoded values, so another backend's last bits cannot derail it.
  absl::StatusOr<KvBlock> Decode(const CodedPolicy& policy, std::string_view bytes, CodecScratch& scratch) const;

  // The halves of the above: the transform and the entropy coder.
  absl::StatusOr<QuantisedBlock> Quantise(const CodedPolicy& policy, const KvBlock& block,
                                          CodecScratch& scratch) const;
  absl::StatusOr<std::string> Pack(const CodedPolicy& policy, const QuantisedBlock& block) const;
  absl::StatusOr<QuantisedBlock> Unpack(const CodedPolicy& policy, std::string_view bytes) const;
  absl::StatusOr<KvBlock> Reconstruct(const CodedPolicy& policy, const QuantisedBlock& block,
                                      CodecScratch& scratch) const;

  // The matrix products of one direction over a block and nothing else: what a bench holds the codec against.
  absl::Status OnlyProducts(TokenRange range) const;
  // Multiplications and additions of one token in those.
  int64_t ProductFlopsPerToken() const;

 private:
  BlockCodec() = default;
  kernels::CodecBlock Block(const CodedPolicy& policy, TokenRange range) const;

  KvLayout layout_;
  CodecWeights weights_;
  uint64_t digest_ = 0;
  std::unique_ptr<kernels::Backend> own_;  // where none was passed
  kernels::CodecBackend* backend_ = nullptr;
  kernels::CodecHandle handle_ = 0;
};

// Ideal static code length of a block in bits: coefficients as Laplace sources of their calibrated variance.
double IdealBits(const BlockCodec& codec, const CodedPolicy& policy, const QuantisedBlock& block);

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_BLOCK_CODEC_H_

#include "common/codec/block_codec.h"

#include <algorithm>
#include <cmath>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/codec/block_codec_internal.h"
#include "common/predictor/features.h"
#include "fmt/format.h"
#include "kernels/fp16.h"
#include "kernels/rope.h"

namespace riskkv {
namespace {

std::vector<float> Transposed(const std::vector<float>& m, int n) {
  std::vector<float> out(m.size());
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) out[static_cast<std::size_t>(j) * n + i] = m[static_cast<std::size_t>(i) * n + j];
  }
  return out;
}

absl::Status CheckWhole(const KvLayout& layout, const KvBlock& block) {
  RETURN_IF_ERROR(CheckBlock(layout, block));
  if (static_cast<int>(block.layers.size()) != layout.n_layer) {
    return absl::InvalidArgumentError(
        fmt::format("a coded block has all {} layers, this one {}", layout.n_layer, block.layers.size()));
  }
  if (block.range.empty() || block.range.size() > kCodedBlockTokens) {
    return absl::InvalidArgumentError(fmt::format("a coded block has 1 to {} tokens, this one {}",
                                                  kCodedBlockTokens, block.range.size()));
  }
  if (!kernels::AllFinite(block.data.data(), block.data.size())) {
    return absl::InvalidArgumentError(
        fmt::format("cells [{}, {}): an element is not finite", block.range.begin, block.range.end));
  }
  return absl::OkStatus();
}

}  // namespace

BlockCodec::BlockCodec() = default;
BlockCodec::~BlockCodec() = default;
CodecScratch::CodecScratch() : buffers_(std::make_unique<Buffers>()) {}
CodecScratch::~CodecScratch() = default;

absl::StatusOr<std::unique_ptr<BlockCodec>> BlockCodec::Create(const KvLayout& layout, CodecWeights weights) {
  const int kv = layout.kv();
  RETURN_IF_ERROR(CheckCodecWeights(weights, layout.n_layer, kv));
  std::unique_ptr<BlockCodec> codec(new BlockCodec);
  codec->layout_ = layout;
  codec->digest_ = CodecDigest(weights);
  const kernels::GemmKind gemm = kernels::AvailableGemms().front();
  for (std::size_t u = 0; u < weights.units.size(); ++u) {
    UnitWeights& unit = weights.units[u];
    PackedUnit packed;
    packed.width = UnitWidth(weights.plan[u], kv);
    packed.from = ConditionWidth(weights.plan, weights.plan[u], kv);
    packed.rotation = kernels::PackB(gemm, unit.rotation.data(), packed.width, packed.width);
    packed.back = kernels::PackB(gemm, Transposed(unit.rotation, packed.width).data(), packed.width, packed.width);
    if (packed.from > 0) packed.predictor = kernels::PackB(gemm, unit.predictor.data(), packed.from, packed.width);
    codec->packed_.push_back(std::move(packed));
    unit.rotation = {};
    unit.predictor = {};
  }
  codec->weights_ = std::move(weights);
  return codec;
}

absl::StatusOr<CodedPolicy> BlockCodec::MakePolicy(float step) const {
  return MakePolicy(std::vector<float>(weights_.units.size(), step));
}

absl::StatusOr<CodedPolicy> BlockCodec::MakePolicy(std::vector<float> steps) const {
  if (steps.size() != weights_.units.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} steps for {} coded units", steps.size(), weights_.units.size()));
  }
  CodedPolicy policy;
  for (std::size_t u = 0; u < steps.size(); ++u) {
    if (!(steps[u] > 0)) return absl::InvalidArgumentError(fmt::format("coded unit {}: step {}", u, steps[u]));
    std::vector<uint8_t> classes;
    if (std::isfinite(steps[u])) {
      for (float v : weights_.units[u].variance) classes.push_back(static_cast<uint8_t>(ClassOf(v, steps[u])));
    }
    policy.classes.push_back(std::move(classes));
  }
  const uint64_t parts[] = {digest_, Xxh3(steps.data(), steps.size() * sizeof(float))};
  policy.context = Xxh3(parts, sizeof(parts));
  policy.steps = std::move(steps);
  return policy;
}

absl::StatusOr<QuantisedBlock> BlockCodec::Quantise(const CodedPolicy& policy, const KvBlock& block,
                                                    CodecScratch& scratch) const {
  RETURN_IF_ERROR(CheckWhole(layout_, block));
  ASSIGN_OR_RETURN(const PreRopeBlock rows, UndoRope(layout_, block));
  Pass pass(*this, block.range, scratch.buffers());
  QuantisedBlock out;
  out.range = block.range;
  for (std::size_t u = 0; u < packed_.size(); ++u) {
    pass.Predict(u);
    pass.Rotate(u, rows);
    out.units.push_back(pass.Quantise(u, policy.steps[u]));
  }
  return out;
}

absl::StatusOr<KvBlock> BlockCodec::Reconstruct(const CodedPolicy& policy, const QuantisedBlock& block,
                                                CodecScratch& scratch) const {
  PreRopeBlock rows;
  rows.range = block.range;
  rows.layers = AllLayers(layout_);
  rows.kv = layout_.kv();
  rows.data.resize(2 * rows.layers.size() * static_cast<std::size_t>(block.range.size()) * rows.kv);
  Pass pass(*this, block.range, scratch.buffers());
  for (std::size_t u = 0; u < packed_.size(); ++u) {
    pass.Predict(u);
    pass.Dequantise(u, policy.steps[u], block.units[u]);
    pass.RotateBack(u, rows);
  }
  return RedoRope(layout_, std::move(rows));
}

absl::StatusOr<std::string> BlockCodec::Pack(const CodedPolicy& policy, const QuantisedBlock& block) const {
  std::vector<CodedChunk> chunks(packed_.size());
  for (std::size_t u = 0; u < packed_.size(); ++u) {
    if (policy.classes[u].empty()) continue;
    absl::Status status = EncodeCoefficients(*weights_.tables, policy.classes[u], static_cast<int>(block.range.size()),
                                             block.units[u].data(), &chunks[u]);
    if (!status.ok()) return Annotate(status, fmt::format("coded unit {}", u));
  }
  return WriteCodedBlock({block.range, policy.context}, chunks);
}

absl::StatusOr<QuantisedBlock> BlockCodec::Unpack(const CodedPolicy& policy, std::string_view bytes) const {
  ASSIGN_OR_RETURN(const CodedBlockView view, ReadCodedBlock(bytes, packed_.size()));
  if (view.header.context != policy.context) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "PREDICTOR_STALE",
                     fmt::format("coded block of other weights or steps: it has {:#x}, this profile {:#x}",
                                 view.header.context, policy.context));
  }
  QuantisedBlock out;
  out.range = view.header.range;
  for (std::size_t u = 0; u < packed_.size(); ++u) {
    std::vector<int32_t> q(policy.classes[u].size() * static_cast<std::size_t>(out.range.size()));
    const CodedBlockView::Unit& unit = view.units[u];
    if (q.empty() && unit.words.size() + unit.bits.size() > 0) {
      return MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE",
                       fmt::format("coded unit {}: {} bytes for an omitted unit", u, unit.words.size()));
    }
    if (!q.empty()) {
      absl::Status status = DecodeCoefficients(*weights_.tables, policy.classes[u],
                                               static_cast<int>(out.range.size()), unit.words, unit.bits, q.data());
      if (!status.ok()) return Annotate(status, fmt::format("coded unit {}", u));
    }
    out.units.push_back(std::move(q));
  }
  return out;
}

absl::StatusOr<std::string> BlockCodec::Encode(const CodedPolicy& policy, const KvBlock& block,
                                               CodecScratch& scratch) const {
  ASSIGN_OR_RETURN(const QuantisedBlock quantised, Quantise(policy, block, scratch));
  return Pack(policy, quantised);
}

absl::StatusOr<KvBlock> BlockCodec::Decode(const CodedPolicy& policy, std::string_view bytes,
                                           CodecScratch& scratch) const {
  ASSIGN_OR_RETURN(const QuantisedBlock quantised, Unpack(policy, bytes));
  return Reconstruct(policy, quantised, scratch);
}

void BlockCodec::OnlyProducts(TokenRange range, CodecScratch& scratch) const {
  Pass pass(*this, range, scratch.buffers());
  for (std::size_t u = 0; u < packed_.size(); ++u) pass.Multiply(u);
}

int64_t BlockCodec::ProductFlopsPerToken() const {
  int64_t products = 0;
  for (const PackedUnit& u : packed_) products += static_cast<int64_t>(u.width) * (u.width + u.from);
  return 2 * products;
}

double IdealBits(const BlockCodec& codec, const CodedPolicy& policy, const QuantisedBlock& block) {
  const std::size_t n = static_cast<std::size_t>(block.range.size());
  double bits = 0;
  for (std::size_t u = 0; u < block.units.size(); ++u) {
    for (std::size_t i = 0; i < block.units[u].size(); ++i)
      bits += IdealBits(block.units[u][i], codec.weights().units[u].variance[i / n], policy.steps[u]);
  }
  return bits;
}

}  // namespace riskkv

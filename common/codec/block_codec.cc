#include "common/codec/block_codec.h"

#include <algorithm>
#include <cmath>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/codec/coefficient_coder.h"
#include "common/kv/convert.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

// The weights as the backend takes them; points into both.
kernels::CodecView ViewOf(const KvLayout& layout, const CodecWeights& weights) {
  kernels::CodecView view;
  view.n_layer = layout.n_layer;
  view.n_head_kv = layout.n_head_kv;
  view.head_dim = layout.head_dim;
  view.rope = layout.rope;
  view.mean = weights.mean.data();
  view.scale = weights.scale.data();
  view.dead_zone = kDeadZone;
  view.largest_level = kLargestLevel;
  for (std::size_t u = 0; u < weights.units.size(); ++u) {
    kernels::CodecUnit unit;
    for (const CachePlane& plane : weights.plan[u].planes) unit.planes.push_back({plane.layer, plane.part});
    unit.conditions = weights.plan[u].conditions;
    unit.rotation = weights.units[u].rotation.data();
    unit.predictor = weights.units[u].predictor.data();
    view.units.push_back(std::move(unit));
  }
  return view;
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
  return absl::OkStatus();
}

}  // namespace

BlockCodec::~BlockCodec() {
  if (handle_ != 0) (void)backend_->Release(handle_);
}

absl::StatusOr<std::unique_ptr<BlockCodec>> BlockCodec::Create(const KvLayout& layout, CodecWeights weights,
                                                               kernels::Backend* backend) {
  RETURN_IF_ERROR(CheckCodecWeights(weights, layout.n_layer, layout.kv()));
  std::unique_ptr<BlockCodec> codec(new BlockCodec);
  codec->layout_ = layout;
  codec->digest_ = CodecDigest(weights);
  if (backend == nullptr) {
    RETURN_IF_ERROR(ToAbsl(kernels::CreateBackend(kernels::BackendChoice::kCpu, 1, &codec->own_)));
    backend = codec->own_.get();
  }
  codec->backend_ = &backend->codec();
  RETURN_IF_ERROR(ToAbsl(codec->backend_->Upload(ViewOf(layout, weights), &codec->handle_)));
  for (UnitWeights& unit : weights.units) {
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
  QuantisedBlock out;
  out.range = block.range;
  scratch.out.clear();
  for (const std::vector<uint8_t>& classes : policy.classes) {
    out.units.emplace_back(classes.size() * static_cast<std::size_t>(block.range.size()));
    scratch.out.push_back(out.units.back().data());
  }
  RETURN_IF_ERROR(
      ToAbsl(backend_->Quantise(Block(policy, block.range), block.data.data(), scratch.out.data())));
  return out;
}

absl::StatusOr<KvBlock> BlockCodec::Reconstruct(const CodedPolicy& policy, const QuantisedBlock& block,
                                                CodecScratch& scratch) const {
  KvBlock out = KvBlock::Make(layout_, block.range, AllLayers(layout_));
  scratch.in.clear();
  for (std::size_t u = 0; u < policy.classes.size(); ++u) {
    const std::size_t wanted = policy.classes[u].size() * static_cast<std::size_t>(block.range.size());
    const std::size_t found = u < block.units.size() ? block.units[u].size() : 0;
    if (found != wanted)
      return absl::InvalidArgumentError(fmt::format("coded unit {}: {} levels, wanted {}", u, found, wanted));
    scratch.in.push_back(wanted == 0 ? nullptr : block.units[u].data());
  }
  RETURN_IF_ERROR(ToAbsl(backend_->Reconstruct(Block(policy, block.range), scratch.in.data(), out.data.data())));
  return out;
}

absl::StatusOr<std::string> BlockCodec::Pack(const CodedPolicy& policy, const QuantisedBlock& block) const {
  std::vector<CodedChunk> chunks(weights_.units.size());
  for (std::size_t u = 0; u < weights_.units.size(); ++u) {
    if (policy.classes[u].empty()) continue;
    absl::Status status = EncodeCoefficients(*weights_.tables, policy.classes[u], static_cast<int>(block.range.size()),
                                             block.units[u].data(), &chunks[u]);
    if (!status.ok()) return Annotate(status, fmt::format("coded unit {}", u));
  }
  return WriteCodedBlock({block.range, policy.context}, chunks);
}

absl::StatusOr<QuantisedBlock> BlockCodec::Unpack(const CodedPolicy& policy, std::string_view bytes) const {
  ASSIGN_OR_RETURN(const CodedBlockView view, ReadCodedBlock(bytes, weights_.units.size()));
  if (view.header.context != policy.context) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "PREDICTOR_STALE",
                     fmt::format("coded block of other weights or steps: it has {:#x}, this profile {:#x}",
                                 view.header.context, policy.context));
  }
  QuantisedBlock out;
  out.range = view.header.range;
  for (std::size_t u = 0; u < weights_.units.size(); ++u) {
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

kernels::CodecBlock BlockCodec::Block(const CodedPolicy& policy, TokenRange range) const {
  return {handle_, range.begin, static_cast<int>(range.size()), static_cast<int>(policy.steps.size()),
          policy.steps.data()};
}

absl::Status BlockCodec::OnlyProducts(TokenRange range) const {
  return ToAbsl(backend_->Multiply(handle_, range.begin, static_cast<int>(range.size())));
}

int64_t BlockCodec::ProductFlopsPerToken() const {
  int64_t products = 0;
  for (const CodedUnit& unit : weights_.plan) {
    const int64_t width = UnitWidth(unit, layout_.kv());
    products += width * (width + ConditionWidth(weights_.plan, unit, layout_.kv()));
  }
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

#include "services/worker/core/move_rebuild.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/codec/coded_probe.h"
#include "common/predictor/rebuild.h"

namespace riskkv::worker {

BlockAssembler::BlockAssembler(KvLayout layout, std::shared_ptr<const LoadedSet> set, const Profile* profile,
                               std::shared_ptr<const CodedMove> coded, kernels::Backend* backend)
    : layout_(std::move(layout)), set_(std::move(set)), profile_(profile), coded_(std::move(coded)), backend_(backend) {}

absl::StatusOr<KvBlock> BlockAssembler::Assemble(SealedSegment cells, const std::optional<SealedSegment>& probe) {
  if (cells.segment.encoding != CellEncoding::kCanonical) return Decode(cells, probe);
  KvBlock block;
  block.range = cells.segment.range;
  block.layers = cells.segment.layers;
  block.kv = layout_.kv();
  block.data = std::move(cells.data);
  if (!cells.segment.rebuild) {
    tokens_exact_ += block.range.size();
    return block;
  }
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(KvBlock all, RebuildBlock(*backend_, set_->uploaded->handle(), *set_->set, *profile_, block));
  rebuild_ms_ += absl::ToDoubleMilliseconds(absl::Now() - start);
  if (probe) RETURN_IF_ERROR(Compare(all, *probe));
  tokens_rebuilt_ += all.range.size();
  return all;
}

absl::StatusOr<KvBlock> BlockAssembler::Decode(const SealedSegment& cells, const std::optional<SealedSegment>& probe) {
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(KvBlock all, DecodeCells(*coded_, cells.segment, cells.bytes(), scratch_));
  decode_ms_ += absl::ToDoubleMilliseconds(absl::Now() - start);
  if (probe) {
    auto ratio = CheckCodedProbe(coded_->codec(), coded_->policy, all, Rows(*probe));
    if (!ratio.ok()) return Annotate(ratio.status(), fmt::format("cells [{}, {})", all.range.begin, all.range.end));
    probe_ratio_ = std::max(probe_ratio_, *ratio);
  }
  tokens_coded_ += all.range.size();
  return all;
}

ProbeRows BlockAssembler::Rows(const SealedSegment& probe) const {
  return {probe.segment.positions, probe.segment.layers, layout_.kv(), probe.data};
}

absl::Status BlockAssembler::Compare(const KvBlock& rebuilt, const SealedSegment& probe) {
  const ProbeRows exact = Rows(probe);
  ASSIGN_OR_RETURN(const std::vector<LayerError> errors, ProbeError(*set_->set, rebuilt, exact));
  probe_ratio_ = std::max(probe_ratio_, ProbeRatio(*set_->set, errors));
  return Annotate(CheckProbe(*set_->set, *profile_, errors),
                  fmt::format("cells [{}, {})", rebuilt.range.begin, rebuilt.range.end));
}

}  // namespace riskkv::worker

#include "common/quality/rivals.h"

#include "common/base/status.h"
#include "common/quality/quantize.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace riskkv {
namespace {

// A policy with its bytes: `middle_sent` for the cells between the ends, the ends in fp16.
CachePolicy WithBytes(const PolicyContext& context, const EndsPolicy& ends, int64_t middle_sent) {
  const KvLayout& layout = context.set.layout();
  CachePolicy policy;
  policy.ends = ends;
  policy.full_bytes = FullBytes(layout, context.cells);
  policy.middle_full = FullBytes(layout, RebuiltRange(ends, context.cells).size());
  policy.middle_sent = middle_sent;
  policy.sent_bytes = policy.full_bytes - policy.middle_full + middle_sent;
  return policy;
}

std::string EndsName(const EndsPolicy& ends) { return fmt::format("{}/{}", ends.first, ends.last); }

int64_t MiddleCells(const PolicyContext& context) { return RebuiltRange(context.ends, context.cells).size(); }

}  // namespace

CachePolicy Int8Policy(const PolicyContext& context) {
  const KvLayout layout = context.set.layout();
  const std::vector<int> layers = AllLayers(layout);
  CachePolicy policy = WithBytes(context, {0, 0}, Int8Bytes(layout, context.cells, layers.size()));
  policy.name = "int8";
  policy.key = "int8 token head";
  policy.decode = [layout, layers](const KvBlock& exact) -> absl::StatusOr<KvBlock> {
    KvBlock cache = exact;
    RETURN_IF_ERROR(QuantiseInt8(layout, exact.range, layers, cache));
    return cache;
  };
  return policy;
}

CachePolicy Int4Policy(const PolicyContext& context, int group) {
  const KvLayout layout = context.set.layout();
  const std::vector<int> layers = AllLayers(layout);
  const EndsPolicy ends = context.ends;
  CachePolicy policy = WithBytes(context, ends, Int4Bytes(layout, MiddleCells(context), layers.size(), group));
  policy.name = fmt::format("int4 groups of {}", group);
  policy.key = fmt::format("int4 channel/token {} ends {}", group, EndsName(ends));
  policy.decode = [layout, layers, ends, group](const KvBlock& exact) -> absl::StatusOr<KvBlock> {
    KvBlock cache = exact;
    const TokenRange middle = RebuiltRange(ends, exact.range.size());
    if (!middle.empty()) RETURN_IF_ERROR(QuantiseInt4(layout, middle, layers, group, cache));
    return cache;
  };
  return policy;
}

CachePolicy OmissionPolicy(const PolicyContext& context, const std::vector<int>& groups) {
  const Profile profile = CandidateProfile(context.set, groups, context.ends);
  CachePolicy policy = WithBytes(
      context, context.ends, SentBytes(context.set.layout(), profile, context.cells) -
                                 FullBytes(context.set.layout(), context.cells - MiddleCells(context)));
  policy.groups = groups;
  policy.name = fmt::format("groups {} omitted", fmt::join(groups, "+"));
  policy.key = fmt::format("rebuild {} {} {}", context.set.digest(), fmt::join(groups, "+"), EndsName(context.ends));
  policy.decode = [context, profile](const KvBlock& exact) {
    return RebuildCache(context.backend, context.handle, context.set, profile, exact);
  };
  return policy;
}

CachePolicy Int8OmissionPolicy(const PolicyContext& context, const std::vector<int>& groups) {
  const Profile profile = CandidateProfile(context.set, groups, context.ends);
  const std::vector<int> shipped = ShippedLayers(context.set, profile);
  CachePolicy policy =
      WithBytes(context, context.ends, Int8Bytes(context.set.layout(), MiddleCells(context), shipped.size()));
  policy.groups = groups;
  policy.name = fmt::format("int8 anchors, {} of {} groups omitted", groups.size(), context.set.groups().size());
  policy.key = fmt::format("int8 rebuild {} {} {}", context.set.digest(), fmt::join(groups, "+"), EndsName(context.ends));
  policy.decode = [context, profile, shipped](const KvBlock& exact) -> absl::StatusOr<KvBlock> {
    KvBlock cache = exact;
    const TokenRange middle = RebuiltRange(profile.ends, exact.range.size());
    if (middle.empty()) return cache;
    RETURN_IF_ERROR(QuantiseInt8(context.set.layout(), middle, shipped, cache));
    return RebuildCache(context.backend, context.handle, context.set, profile, cache);
  };
  return policy;
}

}  // namespace riskkv

#include "common/quality/rivals.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/codec/int8_rows.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace riskkv {
namespace {

TokenRange MiddleOf(const PolicyContext& context) { return RebuiltRange(context.ends.tokens, context.cells); }

// The cells before and after the middle.
std::vector<TokenRange> EndRanges(const EndsPolicy& ends, int64_t cells) {
  const TokenRange middle = RebuiltRange(ends, cells);
  std::vector<TokenRange> ranges;
  for (const TokenRange& r : {TokenRange{0, middle.begin}, TokenRange{middle.end, cells}}) {
    if (!r.empty()) ranges.push_back(r);
  }
  return ranges;
}

int64_t EndBytes(const KvLayout& layout, const CacheEnds& ends, int64_t cells) {
  int64_t bytes = 0;
  for (const TokenRange& r : EndRanges(ends.tokens, cells))
    bytes += ends.int8 ? Int8Bytes(layout, r.size()) : FullBytes(layout, r.size());
  return bytes;
}

// The ends as they arrive.
absl::Status DecodeEnds(const KvLayout& layout, const CacheEnds& ends, KvBlock& cache) {
  if (!ends.int8) return absl::OkStatus();
  for (const TokenRange& r : EndRanges(ends.tokens, cache.range.size()))
    RETURN_IF_ERROR(QuantiseInt8(layout, r, AllLayers(layout), cache));
  return absl::OkStatus();
}

// As it stands in keys of kept results: these must not change.
std::string EndsKey(const CacheEnds& ends) {
  return fmt::format("{}/{}{}", ends.tokens.first, ends.tokens.last, ends.int8 ? " int8" : "");
}

// A policy with its bytes: `middle_sent` for the cells between the ends.
CachePolicy WithBytes(const PolicyContext& context, PolicyFamily family, const CacheEnds& ends, int64_t middle_sent) {
  const KvLayout& layout = context.set.layout();
  CachePolicy policy;
  policy.family = family;
  policy.ends = ends;
  policy.full_bytes = FullBytes(layout, context.cells);
  policy.middle_full = FullBytes(layout, RebuiltRange(ends.tokens, context.cells).size());
  policy.middle_sent = middle_sent;
  policy.sent_bytes = EndBytes(layout, ends, context.cells) + middle_sent;
  return policy;
}

using QuantiseFn = std::function<absl::Status(TokenRange middle, const std::vector<int>& layers, KvBlock& cache)>;

// Groups omitted; what is shipped between the ends goes through `quantise` (null: fp16), then the rest is rebuilt from
// it.
CacheFn OmitAnd(const PolicyContext& context, const std::vector<int>& groups, const QuantiseFn& quantise) {
  const Profile profile = CandidateProfile(context.set, groups, context.ends.tokens);
  const std::vector<int> shipped = ShippedLayers(context.set, profile);
  return [context, profile, shipped, quantise](const KvBlock& exact) -> absl::StatusOr<KvBlock> {
    KvBlock cache = exact;
    const TokenRange middle = RebuiltRange(profile.ends, exact.range.size());
    if (quantise && !middle.empty()) RETURN_IF_ERROR(quantise(middle, shipped, cache));
    ASSIGN_OR_RETURN(KvBlock rebuilt, RebuildCache(context.backend, context.handle, context.set, profile, cache));
    RETURN_IF_ERROR(DecodeEnds(context.set.layout(), context.ends, rebuilt));
    return rebuilt;
  };
}

std::size_t ShippedCount(const PolicyContext& context, const std::vector<int>& groups) {
  return ShippedLayers(context.set, CandidateProfile(context.set, groups, context.ends.tokens)).size();
}

std::string AnchorsName(const PolicyContext& context, const std::vector<int>& groups, const std::string& format) {
  return fmt::format("{} anchors, {} of {} groups omitted", format, groups.size(), context.set.groups().size());
}

}  // namespace

const char* PolicyFamilyName(PolicyFamily family) {
  switch (family) {
    case PolicyFamily::kOmission:
      return "omission";
    case PolicyFamily::kBits:
      return "bits";
    case PolicyFamily::kBitsAndOmission:
      return "bits and omission";
    case PolicyFamily::kCoded:
      return "coded";
  }
  return "unknown";
}

std::string CacheEndsName(const CacheEnds& ends) {
  if (ends.tokens == EndsPolicy{0, 0}) return "none";
  return fmt::format("{}/{} {}", ends.tokens.first, ends.tokens.last, ends.int8 ? "int8" : "exact");
}

CachePolicy Int8Policy(const PolicyContext& context) {
  const KvLayout layout = context.set.layout();
  const std::vector<int> layers = AllLayers(layout);
  CachePolicy policy =
      WithBytes(context, PolicyFamily::kBits, {{0, 0}, false}, Int8Bytes(layout, context.cells, layers.size()));
  policy.name = policy.label = "int8";
  policy.key = "int8 token head";
  policy.decode = [layout, layers](const KvBlock& exact) -> absl::StatusOr<KvBlock> {
    KvBlock cache = exact;
    RETURN_IF_ERROR(QuantiseInt8(layout, exact.range, layers, cache));
    return cache;
  };
  return policy;
}

CachePolicy LowBitsPolicy(const PolicyContext& context, const LowBits& format) {
  const KvLayout layout = context.set.layout();
  const std::vector<int> layers = AllLayers(layout);
  const CacheEnds ends = context.ends;
  CachePolicy policy = WithBytes(context, PolicyFamily::kBits, ends,
                                 LowBitsBytes(layout, MiddleOf(context).size(), layers.size(), format));
  policy.name = fmt::format("int{} groups of {}", format.bits, format.group);
  policy.label = fmt::format("int{}/{}", format.bits, format.group);
  policy.key = fmt::format("int{} channel/token {} ends {}", format.bits, format.group, EndsKey(ends));
  policy.decode = [layout, layers, ends, format](const KvBlock& exact) -> absl::StatusOr<KvBlock> {
    KvBlock cache = exact;
    const TokenRange middle = RebuiltRange(ends.tokens, exact.range.size());
    if (!middle.empty()) RETURN_IF_ERROR(QuantiseLowBits(layout, middle, layers, format, cache));
    RETURN_IF_ERROR(DecodeEnds(layout, ends, cache));
    return cache;
  };
  return policy;
}

CachePolicy OmissionPolicy(const PolicyContext& context, const std::vector<int>& groups) {
  const int64_t shipped = static_cast<int64_t>(ShippedCount(context, groups));
  CachePolicy policy = WithBytes(context, PolicyFamily::kOmission, context.ends,
                                 context.set.layout().bytes_per_token_layer() * shipped * MiddleOf(context).size());
  policy.groups = groups;
  policy.name = fmt::format("groups {} omitted", fmt::join(groups, "+"));
  policy.label = fmt::format("{} omitted", groups.size());
  policy.key = fmt::format("rebuild {} {} {}", context.set.digest(), fmt::join(groups, "+"), EndsKey(context.ends));
  policy.decode = OmitAnd(context, groups, nullptr);
  return policy;
}

CachePolicy Int8OmissionPolicy(const PolicyContext& context, const std::vector<int>& groups) {
  const KvLayout layout = context.set.layout();
  CachePolicy policy = WithBytes(context, PolicyFamily::kBitsAndOmission, context.ends,
                                 Int8Bytes(layout, MiddleOf(context).size(), ShippedCount(context, groups)));
  policy.groups = groups;
  policy.name = AnchorsName(context, groups, "int8");
  policy.label = fmt::format("int8, {} omitted", groups.size());
  policy.key =
      fmt::format("int8 rebuild {} {} {}", context.set.digest(), fmt::join(groups, "+"), EndsKey(context.ends));
  policy.decode = OmitAnd(context, groups, [layout](TokenRange middle, const std::vector<int>& layers, KvBlock& cache) {
    return QuantiseInt8(layout, middle, layers, cache);
  });
  return policy;
}

CachePolicy LowBitsOmissionPolicy(const PolicyContext& context, const std::vector<int>& groups, const LowBits& format) {
  const KvLayout layout = context.set.layout();
  CachePolicy policy = WithBytes(context, PolicyFamily::kBitsAndOmission, context.ends,
                                 LowBitsBytes(layout, MiddleOf(context).size(), ShippedCount(context, groups), format));
  policy.groups = groups;
  policy.name = AnchorsName(context, groups, fmt::format("int{}", format.bits));
  policy.label = fmt::format("int{}, {} omitted", format.bits, groups.size());
  policy.key = fmt::format("int{} of {} rebuild {} {} {}", format.bits, format.group, context.set.digest(),
                           fmt::join(groups, "+"), EndsKey(context.ends));
  policy.decode =
      OmitAnd(context, groups, [layout, format](TokenRange middle, const std::vector<int>& layers, KvBlock& cache) {
        return QuantiseLowBits(layout, middle, layers, format, cache);
      });
  return policy;
}

absl::StatusOr<MeasuredPolicy> MeasurePolicy(RiskMeter& meter, CachePolicy policy) {
  ASSIGN_OR_RETURN(Measurement m, meter.MeasureCache(policy.key, policy.name, policy.decode));
  return MeasuredPolicy{std::move(policy), std::move(m)};
}

absl::StatusOr<MeasuredPolicy> MeasureCodedPolicy(RiskMeter& meter, ResultStore& store, const BlockCodec& codec,
                                                  const std::string& set_digest, const CodedProfile& profile) {
  CachePolicy policy;
  policy.name = policy.label = profile.name;
  policy.family = PolicyFamily::kCoded;
  policy.ends = {profile.ends, profile.int8_ends};
  policy.key =
      fmt::format("coded {} steps {} ends {}", set_digest, fmt::join(profile.steps, ","), EndsKey(policy.ends));
  CodecScratch scratch;
  // The bytes are written before the NLL is: where there is a kept NLL there are its bytes.
  auto bytes_key = [&](std::size_t w) {
    return ResultKey("bytes", fmt::format("{} | {}", meter.window_id(w), policy.key));
  };
  auto decode = [&](std::size_t window, const KvBlock& exact) -> absl::StatusOr<KvBlock> {
    ASSIGN_OR_RETURN(CodedCache cache, CodeCache(codec, profile, exact, scratch));
    RETURN_IF_ERROR(store.Put(bytes_key(window), std::to_string(cache.bytes)));
    return std::move(cache.cells);
  };
  ASSIGN_OR_RETURN(Measurement m, meter.MeasureWindows(policy.key, policy.name, decode));
  int64_t sent = 0;
  for (std::size_t w = 0; w < m.windows.size(); ++w) {
    ASSIGN_OR_RETURN(const std::string bytes, store.Get(bytes_key(w)));
    int64_t one = 0;
    if (!absl::SimpleAtoi(bytes, &one))
      return absl::DataLossError(fmt::format("kept bytes of {} are \"{}\"", policy.key, bytes));
    sent += one;
  }
  const int64_t cells = WindowScorer::HistoryCells(meter.windows().shape);
  policy.sent_bytes = m.windows.empty() ? 0 : sent / static_cast<int64_t>(m.windows.size());
  policy.full_bytes = FullBytes(codec.layout(), cells);
  policy.middle_full = FullBytes(codec.layout(), RebuiltRange(profile.ends, cells).size());
  policy.middle_sent = policy.sent_bytes - EndBytes(codec.layout(), policy.ends, cells);
  return MeasuredPolicy{std::move(policy), std::move(m)};
}

}  // namespace riskkv

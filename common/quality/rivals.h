// What may be sent instead of the whole cache, measured all alike: bytes that go out, and the cache that is decoded
// from them.
#ifndef RISKKV_COMMON_QUALITY_RIVALS_H_
#define RISKKV_COMMON_QUALITY_RIVALS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/codec/coded_profile.h"
#include "common/predictor/predictor_set.h"
#include "common/quality/quantize.h"
#include "common/quality/result_store.h"
#include "common/quality/risk.h"
#include "kernels/backend.h"

namespace riskkv {

// Kinds of policies that belong on one line of a chart.
enum class PolicyFamily { kOmission, kBits, kBitsAndOmission, kCoded };
const char* PolicyFamilyName(PolicyFamily family);  // "omission", "bits", "bits and omission", "coded"

// How the first and the newest cells travel: for all layers, exact or in int8 (codec/int8_rows), counted either way.
struct CacheEnds {
  EndsPolicy tokens;
  bool int8 = false;
  bool operator==(const CacheEnds&) const = default;
};
std::string CacheEndsName(const CacheEnds& ends);  // "4/128 exact", "4/36 int8", "none"

// One way to send a request's cache. Between the ends rows are omitted, in fewer bits, or coded.
struct CachePolicy {
  std::string name;   // "int8", "int8 anchors, 2 of 7 groups omitted", "step 0.25"
  std::string label;  // beside its point in a chart: "int8", "int8, 2 omitted", "0.25"
  PolicyFamily family = PolicyFamily::kOmission;
  std::string key;          // RiskMeter::MeasureCache
  std::vector<int> groups;  // omitted
  CacheEnds ends;
  int64_t sent_bytes = 0;   // of the cells of one request, scales and zero points included; coded: mean over requests
  int64_t full_bytes = 0;   // of the same cells in fp16
  int64_t middle_sent = 0;  // the part of sent_bytes that is not ends
  int64_t middle_full = 0;  // and of full_bytes
  CacheFn decode;
};

// What policies rebuild with. All must outlive the policies. `handle` and `set` are used by policies that omit; the
// others need the set's layout alone.
struct PolicyContext {
  kernels::Backend& backend;
  kernels::SetHandle handle;
  const PredictorSet& set;
  CacheEnds ends;
  int64_t cells = 0;  // of one request
};

// int8 per token and head of the whole cache, no ends (it needs none).
CachePolicy Int8Policy(const PolicyContext& context);
// Fewer bits, keys per channel before RoPE and values per token, between the ends.
CachePolicy LowBitsPolicy(const PolicyContext& context, const LowBits& format);
// Groups omitted, the rest in fp16: the paper, with the context's ends.
CachePolicy OmissionPolicy(const PolicyContext& context, const std::vector<int>& groups);
// Groups omitted, what is shipped between the ends in int8 or fewer bits; predicted from the decoded rows.
CachePolicy Int8OmissionPolicy(const PolicyContext& context, const std::vector<int>& groups);
CachePolicy LowBitsOmissionPolicy(const PolicyContext& context, const std::vector<int>& groups, const LowBits& format);

// A policy and what it costs.
struct MeasuredPolicy {
  CachePolicy policy;
  Measurement measurement;
};
absl::StatusOr<MeasuredPolicy> MeasurePolicy(RiskMeter& meter, CachePolicy policy);
// A coded profile of the codec in a set of this digest. Bytes are measured, so they are kept in `store` beside the
// NLLs.
absl::StatusOr<MeasuredPolicy> MeasureCodedPolicy(RiskMeter& meter, ResultStore& store, const BlockCodec& codec,
                                                  const std::string& set_digest, const CodedProfile& profile);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_RIVALS_H_

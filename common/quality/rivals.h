// What may be sent instead of the whole cache, measured all alike: bytes that go out, and the cache that is decoded from them.
#ifndef RISKKV_COMMON_QUALITY_RIVALS_H_
#define RISKKV_COMMON_QUALITY_RIVALS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/predictor/predictor_set.h"
#include "common/quality/risk.h"
#include "kernels/backend.h"

namespace riskkv {

// One way to send a request's cache. Between the ends rows are omitted or coded; the ends are exact and counted.
struct CachePolicy {
  std::string name;         // "int8", "int8 anchors, 2 of 7 groups omitted"
  std::string key;          // RiskMeter::MeasureCache
  std::vector<int> groups;  // omitted
  EndsPolicy ends;
  int64_t sent_bytes = 0;     // of the cells of one request, scales and zero points included
  int64_t full_bytes = 0;     // of the same cells in fp16
  int64_t middle_sent = 0;    // the part of sent_bytes that is not ends
  int64_t middle_full = 0;    // and of full_bytes
  CacheFn decode;
};

// What policies rebuild with. All must outlive the policies.
struct PolicyContext {
  kernels::Backend& backend;
  kernels::SetHandle handle;
  const PredictorSet& set;
  EndsPolicy ends;
  int64_t cells = 0;  // of one request
};

// int8 per token and head of the whole cache, no ends (it needs none).
CachePolicy Int8Policy(const PolicyContext& context);
// int4, keys per channel before RoPE and values per token, between the ends.
CachePolicy Int4Policy(const PolicyContext& context, int group);
// Groups omitted, the rest in fp16: the paper, with the context's ends.
CachePolicy OmissionPolicy(const PolicyContext& context, const std::vector<int>& groups);
// Groups omitted, what is shipped between the ends in int8; predicted from the decoded int8 rows.
CachePolicy Int8OmissionPolicy(const PolicyContext& context, const std::vector<int>& groups);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_RIVALS_H_

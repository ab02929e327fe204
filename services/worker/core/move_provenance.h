// Where cells come from, as ranges: exact ones are not listed (request.h, Provenance).
#ifndef RISKKV_SERVICES_WORKER_CORE_MOVE_PROVENANCE_H_
#define RISKKV_SERVICES_WORKER_CORE_MOVE_PROVENANCE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/kv/token_ranges.h"
#include "services/worker/core/request.h"

namespace riskkv::worker {

// The listed positions: those that were rebuilt.
TokenRanges RebuiltRanges(const std::vector<Provenance>& provenance);

// INVALID_ARGUMENT (BAD_RANGE) unless ranges are within [0, n), ascending, disjoint and name their set and profile.
absl::Status CheckProvenance(const std::vector<Provenance>& provenance, int64_t n);

// FAILED_PRECONDITION (STATE_NOT_TRANSFERABLE) when rebuilt cells came from another set or profile: a second lossy move must add no
// second loss, so it keeps both or goes FULL.
absl::Status CheckSameProvenance(const std::vector<Provenance>& provenance, const std::string& predictor_set,
                                 const std::string& profile);

// `old` with `range` now from this set and profile. Adjacent equal ranges are joined.
std::vector<Provenance> AddProvenance(const std::vector<Provenance>& old, const Provenance& added);

// The parts within `range`.
std::vector<Provenance> ClipProvenance(const std::vector<Provenance>& provenance, TokenRange range);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_MOVE_PROVENANCE_H_

// What a worker refuses before it holds anything for a request. Messages name the field and its value.
#ifndef RISKKV_SERVICES_WORKER_CORE_REQUEST_CHECKS_H_
#define RISKKV_SERVICES_WORKER_CORE_REQUEST_CHECKS_H_

#include <vector>

#include "absl/status/status.h"
#include "common/engine/engine.h"
#include "services/worker/core/request_manager.h"

namespace riskkv::worker {

inline constexpr int kMaxStopStrings = 16;
inline constexpr std::size_t kMaxStopBytes = 256;

// Tokens a request may have in all, prompt and output.
int64_t ContextLength(const ModelFacts& facts);
// Cells to hold for a request until its end.
int64_t CellsFor(const ModelFacts& facts, int64_t n_prompt, const StopParams& stop);

// All INVALID_ARGUMENT (BAD_ARGUMENT).
absl::Status CheckParams(const Engine& engine, const RequestParams& params);
absl::Status CheckPrompt(const ModelFacts& facts, const std::vector<Token>& prompt);
// Of a request that came from elsewhere: as above, indices without gap, tokens of this vocabulary, not longer than it may be.
absl::Status CheckIncoming(const Engine& engine, const IncomingRequest& request);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_REQUEST_CHECKS_H_

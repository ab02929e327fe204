// A request as a worker holds it. Plain data; no gRPC, no llama types.
#ifndef RISKKV_SERVICES_WORKER_CORE_REQUEST_H_
#define RISKKV_SERVICES_WORKER_CORE_REQUEST_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/status.h"
#include "common/engine/engine.h"
#include "common/kv/layout.h"

namespace riskkv::worker {

struct StopParams {
  int max_tokens = 128;
  int min_tokens = 0;
  std::vector<std::string> stop;
  bool ignore_eos = false;
};

struct RequestParams {
  SamplingParams sampling;
  StopParams stop;
};

struct TopLogprob {
  Token token = -1;
  std::string text;
  float logprob = 0;
};

// One output token as the request log keeps it. Its index alone identifies it.
struct LoggedToken {
  int64_t index = 0;
  Token token = -1;
  std::string text;  // bytes released by this token: whole UTF-8 characters that can no longer become a stop string
  float logprob = 0;
  std::vector<TopLogprob> top;
  uint64_t epoch = 1;
};

enum class RequestState { kQueued, kPrefill, kDecoding, kPaused, kIncoming, kMoved, kFinished };
enum class FinishReason { kNone, kStop, kLength, kCancelled, kError };

// Cells of `range` come from this set and profile; empty: computed natively (exact).
struct Provenance {
  TokenRange range;
  std::string predictor_set;
  std::string profile;
};

// Where a request went (kMoved) or may go (while paused).
struct MoveTarget {
  std::string worker_id;
  std::string address;  // for clients
  std::string migration_id;
  uint64_t epoch = 0;
  int64_t next_index = 0;
};

// A copy of everything known about a request at a token boundary.
// n_tokens = prompt.size() + log.size(); n_kv = n_tokens - 1 once the first token is out: the newest sampled token has no cell.
struct RequestSnapshot {
  std::string id;
  uint64_t epoch = 1;
  int64_t start_index = 0;
  RequestParams params;
  std::vector<Token> prompt;
  std::vector<LoggedToken> log;
  RequestState state = RequestState::kQueued;
  FinishReason finish = FinishReason::kNone;
  absl::Status error;
  int64_t n_kv = 0;
  std::vector<Provenance> provenance;  // ranges that are not exact
  MoveTarget moved_to;
  absl::Duration age;
  bool moving = false;
  int64_t prompt_tokens = 0;           // the counts alone: List leaves prompt and log empty, and a freed request's log is gone
  int64_t output_tokens = 0;
  int64_t n_tokens() const {
    return std::max(prompt_tokens + output_tokens, static_cast<int64_t>(prompt.size() + log.size()));
  }
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_REQUEST_H_

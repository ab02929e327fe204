// What a worker's stream tells a client, without gRPC types (riskkv.v1.GenerateEvent).
#ifndef RISKKV_SERVICES_CLIENT_CORE_EVENTS_H_
#define RISKKV_SERVICES_CLIENT_CORE_EVENTS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace riskkv::client {

struct Alternative {
  int32_t token = -1;
  std::string text;
  float logprob = 0;
};

// One output token. Its index alone identifies it; the epoch it was produced in only fences.
struct TokenEvent {
  int64_t index = 0;
  int32_t token = -1;
  std::string text;
  float logprob = 0;
  std::vector<Alternative> top;
  uint64_t epoch = 0;
};

struct StartedEvent {
  std::string request_id;
  uint64_t epoch = 0;
  std::string worker_id;
  int64_t prompt_tokens = 0;
};

// Paused for a move; the candidate may own the request soon.
struct MovingEvent {
  std::string worker_id;
  std::string address;
  std::string migration_id;
};

// Decided: another worker owns it. Tokens of `epoch` start at next_index.
struct MovedEvent {
  std::string worker_id;
  std::string address;
  uint64_t epoch = 0;
  int64_t next_index = 0;
};

enum class FinishReason { kUnspecified, kStop, kLength, kCancelled, kError };

struct FinishedEvent {
  FinishReason reason = FinishReason::kUnspecified;
  int64_t output_tokens = 0;
  uint64_t epoch = 0;
  absl::Status error;
  std::string tail_text;
};

// Another client attached.
struct SupersededEvent {};

// The stream ended without one of the events that end it (or with them: then the merger has forgotten the
// source).
struct BrokenEvent {
  absl::Status status;
};

using Event = std::variant<TokenEvent, StartedEvent, MovingEvent, MovedEvent, FinishedEvent, SupersededEvent,
                           BrokenEvent>;

}  // namespace riskkv::client

#endif  // RISKKV_SERVICES_CLIENT_CORE_EVENTS_H_

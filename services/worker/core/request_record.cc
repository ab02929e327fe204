#include "services/worker/core/request_record.h"

#include <algorithm>

#include "fmt/format.h"

namespace riskkv::worker {

void RequestRecord::ForgetTokens() {
  forgotten_ = n_tokens();
  std::vector<Token>().swap(history);  // clear() would keep the memory
  std::vector<LoggedToken>().swap(log);
}

RecordPtr ManagerState::Find(const std::string& id) const {
  auto it = records.find(id);
  return it == records.end() ? nullptr : it->second;
}

absl::StatusOr<RecordPtr> ManagerState::Get(const std::string& id) const {
  RecordPtr record = Find(id);
  if (!record) return UnknownRequest(id);
  return record;
}

void ManagerState::Unschedule(const RecordPtr& record) {
  running.erase(std::remove(running.begin(), running.end(), record), running.end());
  queue.erase(std::remove(queue.begin(), queue.end(), record), queue.end());
}

bool ManagerState::AnyMove() const {
  if (!reservations.empty()) return true;
  return std::any_of(records.begin(), records.end(), [](const auto& entry) {
    return entry.second->moving || entry.second->state == RequestState::kIncoming;
  });
}

absl::Status UnknownRequest(const std::string& id) {
  return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_REQUEST", fmt::format("request '{}' is not known here", id));
}

absl::Status RequestFinished(const RequestRecord& record) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "REQUEST_FINISHED",
                   fmt::format("request {} ended ({}) after {} tokens", record.id, ReasonName(record.finish), record.log.size()));
}

std::string_view StateName(RequestState state) {
  switch (state) {
    case RequestState::kQueued: return "queued";
    case RequestState::kPrefill: return "in prefill";
    case RequestState::kDecoding: return "decoding";
    case RequestState::kPaused: return "paused";
    case RequestState::kIncoming: return "incoming";
    case RequestState::kMoved: return "moved";
    case RequestState::kFinished: return "finished";
  }
  return "unknown";
}

std::string_view ReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone: return "none";
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kError: return "error";
  }
  return "unknown";
}

RequestSnapshot Snapshot(const RequestRecord& record, absl::Duration now, bool with_log) {
  RequestSnapshot s;
  s.id = record.id;
  s.epoch = record.epoch;
  s.start_index = record.start_index;
  s.params = record.params;
  s.state = record.state;
  s.finish = record.finish;
  s.error = record.error;
  s.n_kv = record.n_kv;
  s.provenance = record.provenance;
  s.moved_to = record.moved_to;
  s.age = now - record.created;
  s.moving = record.moving;
  s.prompt_tokens = record.n_prompt;
  s.output_tokens = record.n_tokens() - record.n_prompt;
  if (with_log && !record.history.empty()) {
    s.prompt.assign(record.history.begin(), record.history.begin() + record.n_prompt);
    s.log = record.log;
  }
  return s;
}

}  // namespace riskkv::worker

#include "services/client/convert.h"

#include <utility>

#include "common/net/status.h"

namespace riskkv::client {
namespace {

FinishedEvent FromFinished(const v1::Finished& finished) {
  FinishedEvent out;
  out.reason = FromProto(finished.reason());
  out.output_tokens = finished.output_tokens();
  out.epoch = finished.epoch();
  out.error = riskkv::FromProto(finished.error());
  out.tail_text = finished.tail_text();
  return out;
}

}  // namespace

TokenEvent FromProto(const v1::TokenRecord& token) {
  TokenEvent out;
  out.index = token.index();
  out.token = token.token();
  out.text = token.text();
  out.logprob = token.logprob();
  out.epoch = token.epoch();
  for (const v1::TopLogprob& top : token.top()) out.top.push_back({top.token(), top.text(), top.logprob()});
  return out;
}

v1::TokenRecord ToProto(const TokenEvent& token) {
  v1::TokenRecord out;
  out.set_index(token.index);
  out.set_token(token.token);
  out.set_text(token.text);
  out.set_logprob(token.logprob);
  out.set_epoch(token.epoch);
  for (const Alternative& other : token.top) {
    v1::TopLogprob& top = *out.add_top();
    top.set_token(other.token);
    top.set_text(other.text);
    top.set_logprob(other.logprob);
  }
  return out;
}

FinishReason FromProto(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return FinishReason::kStop;
    case v1::FINISH_REASON_LENGTH:
      return FinishReason::kLength;
    case v1::FINISH_REASON_CANCELLED:
      return FinishReason::kCancelled;
    case v1::FINISH_REASON_ERROR:
      return FinishReason::kError;
    default:
      return FinishReason::kUnspecified;
  }
}

std::optional<Event> FromProto(const v1::GenerateEvent& event) {
  switch (event.event_case()) {
    case v1::GenerateEvent::kStarted: {
      const v1::Started& s = event.started();
      return StartedEvent{s.request_id(), s.epoch(), s.worker_id(), s.prompt_tokens()};
    }
    case v1::GenerateEvent::kToken:
      return FromProto(event.token());
    case v1::GenerateEvent::kMoving: {
      const v1::Moving& m = event.moving();
      return MovingEvent{m.worker_id(), m.address(), m.migration_id()};
    }
    case v1::GenerateEvent::kMoved: {
      const v1::Moved& m = event.moved();
      return MovedEvent{m.worker_id(), m.address(), m.epoch(), m.next_index()};
    }
    case v1::GenerateEvent::kFinished:
      return FromFinished(event.finished());
    case v1::GenerateEvent::kSuperseded:
      return SupersededEvent{};
    case v1::GenerateEvent::EVENT_NOT_SET:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace riskkv::client

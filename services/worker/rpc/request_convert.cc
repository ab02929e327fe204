#include "services/worker/rpc/request_convert.h"

#include <string_view>

#include "common/base/status.h"
#include "common/net/convert.h"
#include "fmt/format.h"
#include "services/worker/core/request_checks.h"
#include "services/worker/core/request_text.h"

namespace riskkv::worker {
namespace {

// A token is at least one byte of text in practice, at most a few hundred: bounds what the tokenizer is given.
constexpr int64_t kMaxBytesPerToken = 64;

absl::Status Bad(std::string_view message) { return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT", message); }

absl::Status CheckText(std::string_view field, const std::string& text, const Engine& engine) {
  if (text.empty()) return Bad(fmt::format("{} is empty", field));
  const int64_t most = ContextLength(engine.facts()) * kMaxBytesPerToken;
  if (static_cast<int64_t>(text.size()) > most) {
    return Bad(fmt::format("{} has {} bytes, more than {} cannot fit the model's context of {} tokens", field, text.size(), most,
                           ContextLength(engine.facts())));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Token>> ChatTokens(const v1::Chat& chat, const Engine& engine) {
  RETURN_IF_ERROR(CheckText("chat.user", chat.user(), engine));
  if (!chat.system().empty()) RETURN_IF_ERROR(CheckText("chat.system", chat.system(), engine));
  ASSIGN_OR_RETURN(const std::string prompt, engine.ChatPrompt(chat.system(), chat.user()));
  return engine.Tokenize(prompt, /*add_special=*/true, /*parse_special=*/true);
}

}  // namespace

v1::StopParams ToProto(const StopParams& p) {
  v1::StopParams out;
  out.set_max_tokens(p.max_tokens);
  out.set_min_tokens(p.min_tokens);
  for (const std::string& s : p.stop) out.add_stop(s);
  out.set_ignore_eos(p.ignore_eos);
  return out;
}

StopParams FromProto(const v1::StopParams& p) {
  StopParams out;
  if (p.max_tokens() != 0) out.max_tokens = p.max_tokens();
  out.min_tokens = p.min_tokens();
  out.stop.assign(p.stop().begin(), p.stop().end());
  out.ignore_eos = p.ignore_eos();
  return out;
}

v1::TokenRecord ToProto(const LoggedToken& token) {
  v1::TokenRecord out;
  out.set_index(token.index);
  out.set_token(token.token);
  out.set_text(token.text);
  out.set_logprob(token.logprob);
  out.set_epoch(token.epoch);
  for (const TopLogprob& top : token.top) {
    v1::TopLogprob* t = out.add_top();
    t->set_token(top.token);
    // A string field must be UTF-8; one token's bytes need not be.
    Utf8Stream utf8;
    std::string text = utf8.Push(top.text);
    text += utf8.Flush();
    t->set_text(text);
    t->set_logprob(top.logprob);
  }
  return out;
}

LoggedToken FromProto(const v1::TokenRecord& token) {
  LoggedToken out;
  out.index = token.index();
  out.token = token.token();
  out.text = token.text();
  out.logprob = token.logprob();
  out.epoch = token.epoch();
  for (const v1::TopLogprob& top : token.top()) out.top.push_back({top.token(), top.text(), top.logprob()});
  return out;
}

v1::Provenance ToProto(const Provenance& p) {
  v1::Provenance out;
  *out.mutable_range() = riskkv::ToProto(p.range);
  out.set_predictor_set(p.predictor_set);
  out.set_profile(p.profile);
  return out;
}

Provenance FromProto(const v1::Provenance& p) { return {riskkv::FromProto(p.range()), p.predictor_set(), p.profile()}; }

v1::RequestState ToProto(RequestState state) {
  switch (state) {
    case RequestState::kQueued: return v1::REQUEST_STATE_QUEUED;
    case RequestState::kPrefill: return v1::REQUEST_STATE_PREFILL;
    case RequestState::kDecoding: return v1::REQUEST_STATE_DECODING;
    case RequestState::kPaused: return v1::REQUEST_STATE_PAUSED;
    case RequestState::kIncoming: return v1::REQUEST_STATE_INCOMING;
    case RequestState::kMoved: return v1::REQUEST_STATE_MOVED;
    case RequestState::kFinished: return v1::REQUEST_STATE_FINISHED;
  }
  return v1::REQUEST_STATE_UNSPECIFIED;
}

v1::FinishReason ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone: return v1::FINISH_REASON_UNSPECIFIED;
    case FinishReason::kStop: return v1::FINISH_REASON_STOP;
    case FinishReason::kLength: return v1::FINISH_REASON_LENGTH;
    case FinishReason::kCancelled: return v1::FINISH_REASON_CANCELLED;
    case FinishReason::kError: return v1::FINISH_REASON_ERROR;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

FinishReason FromProto(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP: return FinishReason::kStop;
    case v1::FINISH_REASON_LENGTH: return FinishReason::kLength;
    case v1::FINISH_REASON_CANCELLED: return FinishReason::kCancelled;
    case v1::FINISH_REASON_ERROR: return FinishReason::kError;
    default: return FinishReason::kNone;
  }
}

v1::RequestInfo ToProto(const RequestSnapshot& s, const std::string& worker_id) {
  v1::RequestInfo out;
  out.set_request_id(s.id);
  out.set_epoch(s.epoch);
  out.set_state(ToProto(s.state));
  out.set_worker_id(worker_id);
  out.set_prompt_tokens(s.prompt_tokens);
  out.set_output_tokens(s.output_tokens);
  out.set_n_kv(s.n_kv);
  out.set_max_tokens(s.params.stop.max_tokens);
  for (const Provenance& p : s.provenance) *out.add_provenance() = ToProto(p);
  out.set_moved_to(s.moved_to.address);
  out.set_age_seconds(absl::ToDoubleSeconds(s.age));
  out.set_finish_reason(ToProto(s.finish));
  out.set_start_index(static_cast<uint64_t>(s.start_index));
  return out;
}

absl::StatusOr<RequestParams> ParamsFromProto(const v1::SamplingParams& sampling, const v1::StopParams& stop) {
  RequestParams params;
  absl::StatusOr<SamplingParams> converted = riskkv::FromProto(sampling);
  if (!converted.ok()) {
    const absl::string_view message = converted.status().message();
    return Bad(std::string_view(message.data(), message.size()));
  }
  params.sampling = *std::move(converted);
  params.stop = FromProto(stop);
  return params;
}

absl::StatusOr<std::vector<Token>> PromptFromProto(const v1::GenerateRequest& request, const Engine& engine) {
  switch (request.input_case()) {
    case v1::GenerateRequest::kPrompt:
      RETURN_IF_ERROR(CheckText("prompt", request.prompt(), engine));
      // Control tokens written in a plain prompt stay text: they are for the chat template and for token ids.
      return engine.Tokenize(request.prompt(), /*add_special=*/true, /*parse_special=*/false);
    case v1::GenerateRequest::kTokens:
      if (request.tokens().ids().empty()) return Bad("tokens.ids is empty");
      return std::vector<Token>(request.tokens().ids().begin(), request.tokens().ids().end());
    case v1::GenerateRequest::kChat:
      return ChatTokens(request.chat(), engine);
    case v1::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  return Bad("one of prompt, tokens and chat must be set");
}

}  // namespace riskkv::worker

#include "services/worker/core/request_checks.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "common/base/status.h"
#include "fmt/format.h"
#include "services/worker/core/request_text.h"

namespace riskkv::worker {
namespace {

absl::Status Bad(std::string_view message) { return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT", message); }

absl::Status CheckTokenIds(const ModelFacts& facts, std::string_view what, int64_t at, Token token) {
  if (token >= 0 && token < facts.n_vocab) return absl::OkStatus();
  return Bad(fmt::format("{} token {} is {}, outside the vocabulary of {} tokens", what, at, token, facts.n_vocab));
}

absl::Status CheckStopStrings(const std::vector<std::string>& stop) {
  if (stop.size() > static_cast<std::size_t>(kMaxStopStrings)) {
    return Bad(fmt::format("stop.stop has {} strings, at most {}", stop.size(), kMaxStopStrings));
  }
  for (std::size_t i = 0; i < stop.size(); ++i) {
    if (stop[i].empty() || stop[i].size() > kMaxStopBytes) {
      return Bad(fmt::format("stop.stop[{}] is {} bytes long, must be 1 to {}", i, stop[i].size(), kMaxStopBytes));
    }
    if (!IsUtf8(stop[i])) return Bad(fmt::format("stop.stop[{}] is not valid UTF-8", i));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t ContextLength(const ModelFacts& facts) {
  return facts.n_ctx_train > 0 ? facts.n_ctx_train : std::numeric_limits<int32_t>::max();
}

int64_t CellsFor(const ModelFacts& facts, int64_t n_prompt, const StopParams& stop) {
  return std::min(n_prompt + stop.max_tokens, ContextLength(facts));
}

absl::Status CheckParams(const Engine& engine, const RequestParams& params) {
  // The engine knows what it cannot draw with: a step with one such request would fail as a whole.
  if (absl::Status s = engine.CheckSampling(params.sampling); !s.ok()) {
    return Bad(std::string_view(s.message().data(), s.message().size()));
  }
  const StopParams& stop = params.stop;
  if (stop.max_tokens < 1) return Bad(fmt::format("stop.max_tokens is {}, must be 1 or more", stop.max_tokens));
  if (stop.min_tokens < 0 || stop.min_tokens > stop.max_tokens) {
    return Bad(fmt::format("stop.min_tokens is {}, must be 0 to max_tokens ({})", stop.min_tokens, stop.max_tokens));
  }
  return CheckStopStrings(stop.stop);
}

absl::Status CheckPrompt(const ModelFacts& facts, const std::vector<Token>& prompt) {
  if (prompt.empty()) return Bad("the prompt is empty: it has 0 tokens");
  const int64_t n = static_cast<int64_t>(prompt.size());
  if (n >= ContextLength(facts)) {
    return Bad(fmt::format("the prompt has {} tokens, the model's context is {} and must hold one more", n, ContextLength(facts)));
  }
  for (int64_t i = 0; i < n; ++i) RETURN_IF_ERROR(CheckTokenIds(facts, "prompt", i, prompt[static_cast<std::size_t>(i)]));
  return absl::OkStatus();
}

absl::Status CheckIncoming(const Engine& engine, const IncomingRequest& request) {
  const ModelFacts& facts = engine.facts();
  if (request.id.empty()) return Bad("the incoming request has no id");
  RETURN_IF_ERROR(CheckParams(engine, request.params));
  RETURN_IF_ERROR(CheckPrompt(facts, request.prompt));
  const int64_t n = static_cast<int64_t>(request.log.size());
  if (n >= request.params.stop.max_tokens || n + static_cast<int64_t>(request.prompt.size()) >= ContextLength(facts)) {
    return Bad(fmt::format("request {} has ended: {} prompt and {} output tokens of {}, context {}", request.id,
                           request.prompt.size(), n, request.params.stop.max_tokens, ContextLength(facts)));
  }
  for (int64_t i = 0; i < n; ++i) {
    const LoggedToken& token = request.log[static_cast<std::size_t>(i)];
    if (token.index != i) return Bad(fmt::format("the log of request {} has index {} at place {}", request.id, token.index, i));
    RETURN_IF_ERROR(CheckTokenIds(facts, "output", i, token.token));
  }
  return absl::OkStatus();
}

}  // namespace riskkv::worker

#include <cmath>
#include <string_view>

#include "common/engine/engine.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

// Far above any grammar in use, far below what would stall a decode loop that replays it.
constexpr std::size_t kMaxGrammarBytes = 64 << 10;
constexpr int kMaxPenaltyWindow = 1 << 20;

template <typename T>
absl::Status Bad(std::string_view field, T value, std::string_view want) {
  return absl::InvalidArgumentError(fmt::format("sampling.{} is {}, must be {}", field, value, want));
}

absl::Status CheckPenalties(const SamplingParams& p) {
  if (!std::isfinite(p.repeat_penalty) || p.repeat_penalty <= 0)
    return Bad("repeat_penalty", p.repeat_penalty, "above 0");
  if (!std::isfinite(p.frequency_penalty) || std::fabs(p.frequency_penalty) > 100) {
    return Bad("frequency_penalty", p.frequency_penalty, "within [-100, 100]");
  }
  if (!std::isfinite(p.presence_penalty) || std::fabs(p.presence_penalty) > 100) {
    return Bad("presence_penalty", p.presence_penalty, "within [-100, 100]");
  }
  if (p.penalty_last_n < 0 || p.penalty_last_n > kMaxPenaltyWindow) {
    return Bad("penalty_last_n", p.penalty_last_n, fmt::format("within [0, {}]", kMaxPenaltyWindow));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SamplingParams::Validate() const {
  if (!std::isfinite(temperature) || temperature < 0 || temperature > 100) {
    return Bad("temperature", temperature, "within [0, 100]");
  }
  if (top_k < 0) return Bad("top_k", top_k, "0 (off) or more");
  if (!(top_p > 0 && top_p <= 1)) return Bad("top_p", top_p, "within (0, 1]");
  if (!(min_p >= 0 && min_p < 1)) return Bad("min_p", min_p, "within [0, 1)");
  if (n_logprobs < 0 || n_logprobs > 20) return Bad("n_logprobs", n_logprobs, "within [0, 20]");
  if (grammar.size() > kMaxGrammarBytes) {
    return Bad("grammar", fmt::format("{} bytes long", grammar.size()),
               fmt::format("at most {} bytes", kMaxGrammarBytes));
  }
  return CheckPenalties(*this);
}

}  // namespace riskkv

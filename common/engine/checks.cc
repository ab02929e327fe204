#include "common/engine/checks.h"

#include <algorithm>
#include <set>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

absl::Status CheckSampling(const StepItem& item) {
  if (item.sampling == nullptr) {
    return absl::InvalidArgumentError(fmt::format("sequence {} samples without parameters", item.seq));
  }
  RETURN_IF_ERROR(item.sampling->Validate());
  const int64_t want = item.n_past + static_cast<int64_t>(item.tokens.size());
  if (static_cast<int64_t>(item.history.size()) != want) {
    return absl::InvalidArgumentError(
        fmt::format("sequence {}: history has {} tokens, the cells {}", item.seq, item.history.size(), want));
  }
  if (!std::equal(item.tokens.rbegin(), item.tokens.rend(), item.history.rbegin())) {
    return absl::InvalidArgumentError(
        fmt::format("sequence {}: history does not end in the tokens fed", item.seq));
  }
  if (item.n_prompt < 0 || item.n_prompt > want) {
    return absl::InvalidArgumentError(fmt::format("sequence {}: n_prompt {} is not within the history's {}",
                                                  item.seq, item.n_prompt, want));
  }
  return absl::OkStatus();
}

absl::Status CheckItem(const StepItem& item, int n_vocab, const LengthFn& length) {
  const int64_t n = length(item.seq);
  if (n < 0) return absl::InvalidArgumentError(fmt::format("unknown sequence {}", item.seq));
  if (n != item.n_past) {
    return absl::InvalidArgumentError(
        fmt::format("sequence {}: n_past is {}, its length {}", item.seq, item.n_past, n));
  }
  if (item.tokens.empty()) return absl::InvalidArgumentError(fmt::format("sequence {}: no tokens", item.seq));
  RETURN_IF_ERROR(CheckTokens(item.tokens, n_vocab));
  return item.sample ? CheckSampling(item) : absl::OkStatus();
}

}  // namespace

absl::Status CheckStep(std::span<const StepItem> items, const EngineLimits& limits, int n_vocab,
                       int64_t cells_free, const LengthFn& length) {
  int64_t tokens = 0;
  std::set<SeqId> seen;
  for (const StepItem& item : items) {
    RETURN_IF_ERROR(CheckItem(item, n_vocab, length));
    if (!seen.insert(item.seq).second) {
      return absl::InvalidArgumentError(fmt::format("sequence {} stands twice in one step", item.seq));
    }
    tokens += static_cast<int64_t>(item.tokens.size());
  }
  if (tokens > limits.max_batch) {
    return absl::InvalidArgumentError(
        fmt::format("a step of {} tokens, at most {}", tokens, limits.max_batch));
  }
  return CheckCells(tokens, cells_free);
}

absl::Status CheckTokens(std::span<const Token> tokens, int n_vocab) {
  for (Token t : tokens) {
    if (t < 0 || t >= n_vocab) {
      return absl::InvalidArgumentError(fmt::format("token {} is outside the vocabulary of {}", t, n_vocab));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCells(int64_t wanted, int64_t cells_free) {
  if (wanted <= cells_free) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted, "NO_BLOCKS",
                   fmt::format("{} KV cells wanted, {} free", wanted, cells_free));
}

absl::Status CheckAppend(const KvLayout& layout, const KvBlock& block, int64_t length, int64_t cells_free) {
  RETURN_IF_ERROR(CheckBlock(layout, block));
  if (block.layers.size() != static_cast<std::size_t>(layout.n_layer)) {
    return absl::InvalidArgumentError(
        fmt::format("a block to append has {} of {} layers", block.layers.size(), layout.n_layer));
  }
  if (block.range.begin != length) {
    return absl::InvalidArgumentError(
        fmt::format("block begins at token {}, the sequence has {} cells", block.range.begin, length));
  }
  return CheckCells(block.range.size(), cells_free);
}

absl::Status CheckExport(const KvLayout& layout, SeqId seq, int64_t length, TokenRange range,
                         const std::vector<int>& layers) {
  if (range.begin < 0 || range.end < range.begin || range.end > length) {
    return absl::InvalidArgumentError(
        fmt::format("sequence {} has {} cells, not [{}, {})", seq, length, range.begin, range.end));
  }
  return CheckLayers(layout, layers);
}

uint64_t MixSeed(uint64_t seed, uint64_t index) {
  // splitmix64 of both: neighbouring seeds and indices give unrelated generators.
  auto mix = [](uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  };
  return mix(mix(seed) ^ index);
}

}  // namespace riskkv

#include "common/quality/windows.h"

#include <algorithm>
#include <set>

#include "common/base/status.h"
#include "common/quality/random.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

std::vector<Window> CutArticle(const std::vector<Token>& prefix, const std::vector<Token>& tokens,
                               int article, int length) {
  const std::size_t step = static_cast<std::size_t>(length) - prefix.size();
  std::vector<Window> windows;
  for (std::size_t at = 0; at + step <= tokens.size(); at += step) {
    Window w{article, static_cast<int>(windows.size()), prefix};
    w.tokens.insert(w.tokens.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at),
                    tokens.begin() + static_cast<std::ptrdiff_t>(at + step));
    windows.push_back(std::move(w));
  }
  return windows;
}

// Takes one window of each article in turn.
std::vector<Window> GoRound(std::vector<std::vector<Window>> by_article, Random& random) {
  Shuffle(by_article, random);
  for (auto& windows : by_article) Shuffle(windows, random);
  std::vector<Window> out;
  for (std::size_t round = 0;; ++round) {
    const std::size_t before = out.size();
    for (auto& windows : by_article) {
      if (round < windows.size()) out.push_back(std::move(windows[round]));
    }
    if (out.size() == before) return out;
  }
}

int CountArticles(const std::vector<Window>& windows) {
  std::set<int> articles;
  for (const Window& w : windows) articles.insert(w.article);
  return static_cast<int>(articles.size());
}

}  // namespace

absl::StatusOr<WindowSet> CutWindows(const Engine& engine, const TextFile& file, WindowShape shape,
                                     uint64_t seed, int limit) {
  if (shape.history < 2 || shape.horizon < 0) {
    return absl::InvalidArgumentError(
        fmt::format("history {} and horizon {} make no window", shape.history, shape.horizon));
  }
  ASSIGN_OR_RETURN(const std::vector<Token> prefix,
                   engine.Tokenize("", /*add_special=*/true, /*parse_special=*/false));
  if (static_cast<int>(prefix.size()) >= shape.history) {
    return absl::InvalidArgumentError(fmt::format(
        "the model begins a text with {} tokens, the history has {}", prefix.size(), shape.history));
  }
  std::vector<std::vector<Window>> by_article;
  std::size_t longest = 0;
  WindowSet set;
  set.shape = shape;
  for (std::size_t a = 0; a < file.articles.size(); ++a) {
    auto tokens = engine.Tokenize(file.articles[a].text, /*add_special=*/false, /*parse_special=*/false);
    if (!tokens.ok()) return Annotate(tokens.status(), file.path);
    longest = std::max(longest, tokens->size());
    by_article.push_back(CutArticle(prefix, *tokens, static_cast<int>(a), shape.length()));
    set.available += static_cast<int>(by_article.back().size());
  }
  if (set.available == 0) {
    return absl::InvalidArgumentError(
        fmt::format("{} is too short: its longest article has {} tokens, a window needs {}", file.path,
                    longest, shape.length()));
  }
  Random random(seed);
  set.windows = GoRound(std::move(by_article), random);
  LimitWindows(set, limit > 0 ? limit : set.available);
  return set;
}

void LimitWindows(WindowSet& set, int n) {
  if (n < static_cast<int>(set.windows.size())) set.windows.resize(static_cast<std::size_t>(std::max(0, n)));
  set.articles = CountArticles(set.windows);
}

}  // namespace riskkv

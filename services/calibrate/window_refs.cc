#include "services/calibrate/window_refs.h"

#include <algorithm>

namespace riskkv::calibrate {
namespace {

constexpr std::size_t kExcerptTokens = 14;

std::string TextOf(const Engine& engine, const std::vector<Token>& tokens, std::size_t from, std::size_t to) {
  std::string text;
  for (std::size_t i = from; i < std::min(to, tokens.size()); ++i) text += engine.TokenText(tokens[i], false);
  return OneLine(text);
}

}  // namespace

std::string OneLine(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bad = std::min(FindInvalidUtf8(text), text.size());
    for (char c : text.substr(0, bad)) {
      if (static_cast<unsigned char>(c) > 0x20 && c != 0x7f)
        out += c;
      else if (!out.empty() && out.back() != ' ')
        out += ' ';
    }
    text.remove_prefix(std::min(bad + 1, text.size()));
  }
  return out;
}

std::vector<WindowRef> WindowRefs(const Engine& engine, const WindowSet& set, const TextFile& file) {
  const std::size_t move = static_cast<std::size_t>(set.shape.history);
  std::vector<WindowRef> refs;
  for (const Window& w : set.windows) {
    refs.push_back({w.article, file.articles[static_cast<std::size_t>(w.article)].title, w.index,
                    TextOf(engine, w.tokens, move - std::min(move, kExcerptTokens), move),
                    TextOf(engine, w.tokens, move, move + kExcerptTokens)});
  }
  return refs;
}

}  // namespace riskkv::calibrate

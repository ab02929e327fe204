#include "common/quality/articles.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }

std::string_view Trim(std::string_view s) {
  while (!s.empty() && IsSpace(s.front())) s.remove_prefix(1);
  while (!s.empty() && IsSpace(s.back())) s.remove_suffix(1);
  return s;
}

// The title of a heading line, or "".
std::string_view HeadingTitle(std::string_view line) {
  if (line.substr(0, 3) != " = ") return "";
  const std::string_view s = Trim(line);
  if (s.size() < 5 || s.substr(s.size() - 2) != " =") return "";
  const std::string_view title = Trim(s.substr(2, s.size() - 4));
  return title.empty() || title.front() == '=' ? "" : title;
}

// Length of the UTF-8 sequence at the front of s, 0 when malformed (overlong forms, surrogates, beyond
// U+10FFFF).
std::size_t Utf8Length(std::string_view s) {
  auto byte = [&](std::size_t i) { return i < s.size() ? static_cast<uint8_t>(s[i]) : uint8_t{0}; };
  auto tail = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const uint8_t a = byte(0), b = byte(1);
  if (a < 0x80) return 1;
  if (a >= 0xc2 && a <= 0xdf) return tail(1) ? 2 : 0;
  if (a >= 0xe0 && a <= 0xef) {
    const bool fits = (a != 0xe0 || b >= 0xa0) && (a != 0xed || b < 0xa0);
    return fits && tail(1) && tail(2) ? 3 : 0;
  }
  if (a >= 0xf0 && a <= 0xf4) {
    const bool fits = (a != 0xf0 || b >= 0x90) && (a != 0xf4 || b < 0x90);
    return fits && tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

// Splits at headings; pieces of white space alone are dropped.
std::vector<Article> SplitArticles(std::string_view text) {
  std::vector<Article> articles;
  Article current;
  auto finish = [&] {
    if (!Trim(current.text).empty()) articles.push_back(std::move(current));
    current = {};
  };
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end == std::string_view::npos ? text.size() : end + 1);
    if (const std::string_view title = HeadingTitle(line); !title.empty()) {
      finish();
      current.title = std::string(title);
    }
    current.text += line;
    text.remove_prefix(line.size());
  }
  finish();
  return articles;
}

}  // namespace

std::size_t FindInvalidUtf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t n = Utf8Length(text.substr(at, 4));
    if (n == 0) return at;
    at += n;
  }
  return std::string_view::npos;
}

std::string NormaliseText(std::string_view text) {
  std::string out;
  for (char c : Trim(text)) {
    if (!IsSpace(c)) {
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (out.back() != ' ') {
      out += ' ';
    }
  }
  return out;
}

absl::StatusOr<TextFile> ParseArticles(std::string_view text, const std::string& name) {
  if (Trim(text).empty()) return absl::InvalidArgumentError(fmt::format("{} is empty", name));
  if (const std::size_t bad = FindInvalidUtf8(text); bad != std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format("{} is not UTF-8: byte {} at offset {}", name,
                                                  static_cast<unsigned>(static_cast<uint8_t>(text[bad])),
                                                  bad));
  }
  TextFile file{name, Sha256Hex(text), {}, 0};
  std::set<std::string> seen;
  for (Article& a : SplitArticles(text)) {
    a.digest = Sha256Hex(NormaliseText(a.text));
    if (seen.insert(a.digest).second)
      file.articles.push_back(std::move(a));
    else
      ++file.repeated;
  }
  return file;
}

absl::StatusOr<TextFile> ReadArticles(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return absl::InvalidArgumentError(fmt::format("{} is a folder, not a text", path));
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) return absl::InternalError(fmt::format("cannot read {}", path));
  return ParseArticles(text, path);
}

absl::Status CheckDisjoint(const std::vector<std::pair<std::string, const TextFile*>>& splits) {
  std::map<std::string, std::string> owner;
  for (const auto& [split, file] : splits) {
    for (const Article& a : file->articles) {
      const auto [it, is_new] = owner.emplace(a.digest, split);
      if (is_new || it->second == split) continue;
      return absl::InvalidArgumentError(
          fmt::format("article \"{}\" is in two splits, {} and {} ({}): no split may share an article",
                      a.title.empty() ? "(no title)" : a.title, it->second, split, file->path));
    }
  }
  return absl::OkStatus();
}

}  // namespace riskkv

// Text files as articles: the unit that splits never share and the bootstrap resamples.
#ifndef RISKKV_COMMON_QUALITY_ARTICLES_H_
#define RISKKV_COMMON_QUALITY_ARTICLES_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace riskkv {

struct Article {
  std::string title;   // "" without a heading
  std::string text;    // heading line included
  std::string digest;  // SHA-256 of the normalised text (NormaliseText)
};

struct TextFile {
  std::string path;
  std::string digest;  // SHA-256 of the file's bytes
  std::vector<Article> articles;
  int repeated = 0;  // articles left out since the file holds them already
};

// An article starts at a line " = Title = " (WikiText's headings; " = = Section = = " is none). Text before
// the first heading, or a file without headings, is one article. INVALID_ARGUMENT naming the file: empty, or
// not UTF-8 (with the offset of the first bad byte).
absl::StatusOr<TextFile> ParseArticles(std::string_view text, const std::string& name);
// The same from a file; NOT_FOUND names it.
absl::StatusOr<TextFile> ReadArticles(const std::string& path);

// Lower-case ASCII letters, runs of white space one blank, none at the ends: copies of one article compare
// equal.
std::string NormaliseText(std::string_view text);

// Offset of the first byte that is not part of well-formed UTF-8 (RFC 3629), or npos.
std::size_t FindInvalidUtf8(std::string_view text);

// INVALID_ARGUMENT naming both splits and the title when an article is in two of them.
absl::Status CheckDisjoint(const std::vector<std::pair<std::string, const TextFile*>>& splits);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_ARTICLES_H_

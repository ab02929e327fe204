// Windows of tokens: history + horizon tokens of one article, never across two.
#ifndef RISKKV_COMMON_QUALITY_WINDOWS_H_
#define RISKKV_COMMON_QUALITY_WINDOWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "common/quality/articles.h"

namespace riskkv {

struct WindowShape {
  int history = 512;  // tokens a request has when it moves
  int horizon = 512;  // tokens scored after that; 0 in windows that are only fitted on
  int length() const { return history + horizon; }
};

struct Window {
  int article = 0;  // index into TextFile::articles
  int index = 0;    // of the window within its article
  std::vector<Token> tokens;
};

struct WindowSet {
  WindowShape shape;
  std::vector<Window> windows;
  int available = 0;  // windows the text has
  int articles = 0;   // articles among `windows`
};

// Cuts every article, tokenised as a whole, into consecutive windows; each begins with the model's
// begin-of-text token where it wants one (counted in the history). Their order goes round the articles,
// articles and the windows of each shuffled by `seed`, so any first n are spread over as many articles as
// there are; `limit` keeps the first n (0: all). INVALID_ARGUMENT naming the file and both lengths when no
// article is long enough for one.
absl::StatusOr<WindowSet> CutWindows(const Engine& engine, const TextFile& file, WindowShape shape,
                                     uint64_t seed, int limit);

// Keeps the first n.
void LimitWindows(WindowSet& set, int n);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_WINDOWS_H_

// The text of a request as a pure function of its tokens: whole UTF-8 characters, held back while they may still become a
// stop string. Nothing of it travels when a request moves; the destination replays the tokens.
#ifndef RISKKV_SERVICES_WORKER_CORE_REQUEST_TEXT_H_
#define RISKKV_SERVICES_WORKER_CORE_REQUEST_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/engine/engine.h"

namespace riskkv::worker {

// Turns bytes that arrive in any pieces into whole characters. What can never become one is replaced by U+FFFD, so that
// everything that leaves is valid UTF-8.
class Utf8Stream {
 public:
  // The whole characters that are complete with `bytes`.
  std::string Push(std::string_view bytes);
  // The end of the text: an unfinished character becomes U+FFFD.
  std::string Flush();

 private:
  std::string partial_;  // 0 to 3 bytes that begin a character
};

// True when `text` is valid UTF-8 (no overlong forms, no surrogates).
bool IsUtf8(std::string_view text);

// Not thread-safe. Copyable: a copy goes on from the same place.
class TextAssembler {
 public:
  // `engine` (only TokenText is called) must outlive it. A stop string that is complete before min_tokens tokens are out
  // is ordinary text.
  TextAssembler(const Engine* engine, std::vector<std::string> stop, int min_tokens);

  // The text that `token` releases. After a stop string was met: what stands before it, and from then on nothing.
  std::string Push(Token token);
  bool stopped() const { return stopped_; }
  // The end came without a stop string: what was held back.
  std::string TakeTail();

 private:
  // Where the first complete stop string in held_ begins and ends; npos without one.
  std::size_t FindStop(std::size_t* end) const;
  // Length of the longest suffix of held_ that begins a stop string.
  std::size_t PartialStop() const;

  const Engine* engine_;
  std::vector<std::string> stop_;
  int64_t min_tokens_;
  int64_t pushed_ = 0;
  Utf8Stream utf8_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_REQUEST_TEXT_H_

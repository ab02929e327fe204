#include "services/worker/core/request_text.h"

#include <algorithm>
#include <utility>

namespace riskkv::worker {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

unsigned Byte(std::string_view s, std::size_t i) { return static_cast<unsigned char>(s[i]); }

// What the bytes at the front of a text are.
struct Lead {
  enum Kind { kWhole, kPartial, kInvalid } kind;
  std::size_t size;  // bytes of it; of kInvalid: bytes to replace by one U+FFFD
};

// The allowed range of the second byte excludes overlong forms, surrogates and code points above U+10FFFF.
Lead Classify(std::string_view s) {
  const unsigned c = Byte(s, 0);
  if (c < 0x80) return {Lead::kWhole, 1};
  const std::size_t size = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
  if (c < 0xC2 || c > 0xF4) return {Lead::kInvalid, 1};
  const unsigned low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
  const unsigned high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < size; ++i) {
    if (i == s.size()) return {Lead::kPartial, i};
    const unsigned b = Byte(s, i);
    if (b < (i == 1 ? low : 0x80u) || b > (i == 1 ? high : 0xBFu)) return {Lead::kInvalid, i};
  }
  return {Lead::kWhole, size};
}

}  // namespace

std::string Utf8Stream::Push(std::string_view bytes) {
  const std::string all = std::exchange(partial_, {}) + std::string(bytes);
  std::string_view rest = all;
  std::string out;
  while (!rest.empty()) {
    const Lead lead = Classify(rest);
    if (lead.kind == Lead::kPartial) {
      partial_ = std::string(rest);
      break;
    }
    if (lead.kind == Lead::kWhole) {
      out += rest.substr(0, lead.size);
    } else {
      out += kReplacement;
    }
    rest.remove_prefix(lead.size);
  }
  return out;
}

std::string Utf8Stream::Flush() { return std::exchange(partial_, {}).empty() ? "" : kReplacement; }

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const Lead lead = Classify(text);
    if (lead.kind != Lead::kWhole) return false;
    text.remove_prefix(lead.size);
  }
  return true;
}

TextAssembler::TextAssembler(const Engine* engine, std::vector<std::string> stop, int min_tokens)
    : engine_(engine), stop_(std::move(stop)), min_tokens_(min_tokens) {}

std::size_t TextAssembler::FindStop(std::size_t* end) const {
  std::size_t first = std::string::npos;
  for (const std::string& s : stop_) {
    const std::size_t at = held_.find(s);
    if (at >= first) continue;
    first = at;
    *end = at + s.size();
  }
  return first;
}

std::size_t TextAssembler::PartialStop() const {
  std::size_t longest = 0;
  for (const std::string& s : stop_) {
    for (std::size_t n = std::min(s.size() - 1, held_.size()); n > longest; --n) {
      if (std::string_view(held_).substr(held_.size() - n) == std::string_view(s).substr(0, n)) longest = n;
    }
  }
  return longest;
}

std::string TextAssembler::Push(Token token) {
  if (stopped_) return "";
  ++pushed_;
  held_ += utf8_.Push(engine_->TokenText(token));
  if (stop_.empty()) return std::exchange(held_, {});
  std::string released;
  std::size_t end = 0;
  for (std::size_t at = FindStop(&end); at != std::string::npos; at = FindStop(&end)) {
    if (pushed_ >= min_tokens_) {
      stopped_ = true;
      released += held_.substr(0, at);
      held_.clear();
      return released;
    }
    released += held_.substr(0, end);
    held_.erase(0, end);
  }
  const std::size_t keep = PartialStop();
  released += held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return released;
}

std::string TextAssembler::TakeTail() {
  if (stopped_) return "";
  return std::exchange(held_, {}) + utf8_.Flush();
}

}  // namespace riskkv::worker

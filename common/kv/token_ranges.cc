#include "common/kv/token_ranges.h"

#include <algorithm>

#include "fmt/format.h"

namespace riskkv {

TokenRanges::Map::const_iterator TokenRanges::FirstEndingAfter(int64_t position) const {
  auto it = ranges_.upper_bound(position);
  if (it != ranges_.begin() && std::prev(it)->second > position) --it;
  return it;
}

int64_t TokenRanges::Add(TokenRange range) {
  if (range.empty()) return 0;
  const int64_t before = size_;
  int64_t begin = range.begin;
  int64_t end = range.end;
  // position begin - 1: a range that only touches is merged too.
  auto it = FirstEndingAfter(begin - 1);
  while (it != ranges_.end() && it->first <= end) {
    begin = std::min(begin, it->first);
    end = std::max(end, it->second);
    size_ -= it->second - it->first;
    it = ranges_.erase(it);
  }
  ranges_[begin] = end;
  size_ += end - begin;
  return size_ - before;
}

int64_t TokenRanges::Remove(TokenRange range) {
  if (range.empty()) return 0;
  const int64_t before = size_;
  auto it = FirstEndingAfter(range.begin);
  while (it != ranges_.end() && it->first < range.end) {
    const int64_t begin = it->first;
    const int64_t end = it->second;
    it = ranges_.erase(it);
    size_ -= std::min(end, range.end) - std::max(begin, range.begin);
    if (begin < range.begin) ranges_[begin] = range.begin;
    if (end > range.end) ranges_[range.end] = end;
  }
  return before - size_;
}

bool TokenRanges::Contains(TokenRange range) const {
  if (range.empty()) return true;
  auto it = FirstEndingAfter(range.begin);
  return it != ranges_.end() && it->first <= range.begin && it->second >= range.end;
}

int64_t TokenRanges::Count(TokenRange range) const {
  int64_t n = 0;
  for (TokenRange r : Present(range)) n += r.size();
  return n;
}

std::vector<TokenRange> TokenRanges::Present(TokenRange range) const {
  std::vector<TokenRange> out;
  for (auto it = FirstEndingAfter(range.begin); it != ranges_.end() && it->first < range.end; ++it) {
    out.push_back({std::max(it->first, range.begin), std::min(it->second, range.end)});
  }
  return out;
}

std::vector<TokenRange> TokenRanges::Missing(TokenRange range) const {
  std::vector<TokenRange> out;
  int64_t at = range.begin;
  for (TokenRange r : Present(range)) {
    if (r.begin > at) out.push_back({at, r.begin});
    at = r.end;
  }
  if (at < range.end) out.push_back({at, range.end});
  return out;
}

int64_t TokenRanges::ContiguousEnd(int64_t begin) const {
  auto it = FirstEndingAfter(begin);
  return it != ranges_.end() && it->first <= begin ? it->second : begin;
}

std::vector<TokenRange> TokenRanges::ranges() const {
  std::vector<TokenRange> out;
  for (const auto& [begin, end] : ranges_) out.push_back({begin, end});
  return out;
}

std::string TokenRanges::ToString() const {
  std::string out;
  for (const auto& [begin, end] : ranges_)
    out += fmt::format("{}[{},{})", out.empty() ? "" : " ", begin, end);
  return out;
}

void TokenRanges::Clear() {
  ranges_.clear();
  size_ = 0;
}

}  // namespace riskkv

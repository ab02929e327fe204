// Which token positions are there: a set of disjoint ranges.
#ifndef RISKKV_COMMON_KV_TOKEN_RANGES_H_
#define RISKKV_COMMON_KV_TOKEN_RANGES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/kv/layout.h"

namespace riskkv {

// A set of absolute token positions, kept as maximal disjoint ranges. Empty ranges are ignored by Add and
// Remove and contained in every set. Operations cost O(log n) plus the ranges they touch. Not thread-safe.
class TokenRanges {
 public:
  TokenRanges() = default;
  explicit TokenRanges(const std::vector<TokenRange>& ranges) {
    for (TokenRange r : ranges) Add(r);
  }

  // Returns how many positions were new.
  int64_t Add(TokenRange range);
  // Returns how many positions were there.
  int64_t Remove(TokenRange range);

  bool Contains(TokenRange range) const;
  bool Contains(int64_t position) const { return Contains({position, position + 1}); }
  bool Overlaps(TokenRange range) const { return Count(range) > 0; }
  // Positions of `range` that are in the set.
  int64_t Count(TokenRange range) const;
  // The parts of `range` that are in the set / are not, ascending.
  std::vector<TokenRange> Present(TokenRange range) const;
  std::vector<TokenRange> Missing(TokenRange range) const;
  // End of the unbroken run that starts at `begin`; `begin` itself when that position is missing.
  int64_t ContiguousEnd(int64_t begin) const;

  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::vector<TokenRange> ranges() const;
  // "[0,4) [9,12)".
  std::string ToString() const;
  void Clear();
  bool operator==(const TokenRanges& other) const { return ranges_ == other.ranges_; }

 private:
  using Map = std::map<int64_t, int64_t>;  // begin -> end; ranges neither overlap nor touch
  // The first range that ends after `position`.
  Map::const_iterator FirstEndingAfter(int64_t position) const;

  Map ranges_;
  int64_t size_ = 0;
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_KV_TOKEN_RANGES_H_

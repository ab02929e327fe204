// Memory that is kept as one run of bytes and taken back from it: what checkpoints of sums are made of.
#ifndef RISKKV_COMMON_BASE_PARTS_H_
#define RISKKV_COMMON_BASE_PARTS_H_

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace riskkv {

// Fills the parts in order from the front of *bytes and removes what it took. False, and nothing is changed, when
// there are too few bytes.
inline bool TakeParts(std::span<const std::span<std::byte>> parts, std::string_view* bytes) {
  std::size_t wanted = 0;
  for (std::span<std::byte> p : parts) wanted += p.size();
  if (bytes->size() < wanted) return false;
  for (std::span<std::byte> p : parts) {
    std::memcpy(p.data(), bytes->data(), p.size());
    bytes->remove_prefix(p.size());
  }
  return true;
}

}  // namespace riskkv

#endif  // RISKKV_COMMON_BASE_PARTS_H_

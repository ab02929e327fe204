// Numbers that are the same on every machine for a seed (std distributions are not).
#ifndef RISKKV_COMMON_QUALITY_RANDOM_H_
#define RISKKV_COMMON_QUALITY_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace riskkv {

// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Uniform in [0, n), n < 2^32: the high half of a product, biased by less than n / 2^64.
  std::size_t Below(std::size_t n) {
    return static_cast<std::size_t>((static_cast<unsigned __int128>(Next()) * n) >> 64);
  }

 private:
  uint64_t state_;
};

template <typename T>
void Shuffle(std::vector<T>& v, Random& random) {
  for (std::size_t i = v.size(); i > 1; --i) std::swap(v[i - 1], v[random.Below(i)]);
}

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_RANDOM_H_

#include "kernels/tests/alloc_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> allocations{0};

void* Count(void* block) {
  ++allocations;
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

std::size_t RoundUp(std::size_t n, std::size_t align) { return (n + align - 1) / align * align; }

}  // namespace

// The array and nothrow forms call these by default.
void* operator new(std::size_t n) { return Count(std::malloc(n > 0 ? n : 1)); }
void* operator new(std::size_t n, std::align_val_t align) {
  const std::size_t a = static_cast<std::size_t>(align);
  return Count(std::aligned_alloc(a, RoundUp(n > 0 ? n : 1, a)));
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }

namespace riskkv::kernels::test {

long AllocationCount() { return allocations.load(); }

}  // namespace riskkv::kernels::test

// Reading an engine state into canonical cells: nothing is read or written out of bounds, whatever the bytes say. The
// first byte chooses the token count, so that sizes both fit and do not.
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/engine/llama/state_format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  riskkv::KvLayout layout;
  layout.n_layer = 3;
  layout.n_head_kv = 1;
  layout.head_dim = 4;
  const riskkv::TokenRange range{5, 5 + 1 + data[0] % 4};
  riskkv::KvBlock block = riskkv::KvBlock::Make(layout, range, {0, 2});
  (void)riskkv::ReadLlamaState(std::span<const uint8_t>(data + 1, size - 1), layout, range, block);
  return 0;
}

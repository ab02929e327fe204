// llama.cpp's sequence state as bytes (version of deploy/lib/llama_pins.sh; design.md section 4), read and
// made by hand. No llama.cpp types: pure functions over bytes. Not a wire format: it never leaves the
// process.
//
//   u32 magic, i32 sequence, u32 streams (1), u32 cells, cells * {i32 position, u32 1, i32 sequence},
//   u32 v_trans (0), u32 layers, layers * {i32 type, u64 row bytes, cells rows of K}, the same for V
#ifndef RISKKV_COMMON_ENGINE_LLAMA_STATE_FORMAT_H_
#define RISKKV_COMMON_ENGINE_LLAMA_STATE_FORMAT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/kv/layout.h"

namespace riskkv {

// Size of the state of `cells` > 0 cells.
std::size_t LlamaStateSize(const KvLayout& layout, int64_t cells);

// Copies the rows of a state that holds exactly the positions `range` (in any order) into the same positions
// of `block`, whose range must contain `range`, for the layers the block has. INTERNAL names what does not
// fit; nothing is read outside `state`, whatever it says.
absl::Status ReadLlamaState(std::span<const uint8_t> state, const KvLayout& layout, TokenRange range,
                            KvBlock& block);

// The state of the positions `range` of `block`, which must hold all layers; `state` is resized to fit.
void WriteLlamaState(const KvLayout& layout, const KvBlock& block, TokenRange range,
                     std::vector<uint8_t>& state);

}  // namespace riskkv

#endif  // RISKKV_COMMON_ENGINE_LLAMA_STATE_FORMAT_H_

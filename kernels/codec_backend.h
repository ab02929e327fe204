// The transforms of a coded cache: the border between the codec (common/codec) and the device. Host only; includes no
// CUDA header. The entropy coder is not here: levels come and go as integers.
//
// For one token, x_p [kv] a plane (keys before RoPE), m_p its mean and s_p its scale:
//
//   y_u = ((x_p - m_p) / s_p for the planes p of unit u) R_u             rotated coordinates
//   P_u = (z_c for the conditions c of u) W_u                            zero without conditions
//   q_u = sign(r) floor(|r| + 1 - dead zone),  r = (y_u - P_u) / step_u  levels
//   z_u = P_u + step_u q_u                                               what a decoder has
//   x_p ~ m_p + s_p (z_u R_u')_p                                         then RoPE and fp16
#ifndef RISKKV_KERNELS_CODEC_BACKEND_H_
#define RISKKV_KERNELS_CODEC_BACKEND_H_

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/status.h"

namespace riskkv::kernels {

// K (part 0, before RoPE) or V (part 1) of one layer: kv columns.
struct CodecPlane {
  int layer = 0;
  int part = 0;
};

// Planes that share a transform, side by side: width = kv * |planes|. Row-major, host memory.
struct CodecUnit {
  std::vector<CodecPlane> planes;
  std::vector<int> conditions;       // earlier units, ascending
  const float* rotation = nullptr;   // R [width, width]
  const float* predictor = nullptr;  // W [sum of the conditions' widths, width]; not read without conditions
};

// What Upload copies from; the pointers need to live only during the call. Every plane is in exactly one unit.
struct CodecView {
  int n_layer = 0;
  int n_head_kv = 0;
  int head_dim = 0;
  RopeParams rope;
  const float* mean = nullptr;   // [n_layer][K|V][kv], finite
  const float* scale = nullptr;  // [n_layer][K|V], finite and positive
  std::vector<CodecUnit> units;  // in the order of coding
  float dead_zone = 0.5f;        // 0.5 rounds to nearest; below 1
  int32_t largest_level = 0;     // a level beyond it, or that is not a number, comes out as this and one
};

using CodecHandle = uint64_t;  // 0 is never a handle

// Tokens [first, first + n_tokens) and how their units are coded.
struct CodecBlock {
  CodecHandle codec = 0;
  int64_t first = 0;  // position of the first token
  int n_tokens = 0;   // 1 to kTileTokens
  int n_units = 0;    // of steps and of the levels passed beside: as the codec has
  // [n_units]. Positive: coded. Infinite: omitted, z = P. Zero: exact, z = y; its cells are the caller's business, they
  // are there before either call and Reconstruct leaves them as they are.
  const float* steps = nullptr;
};

// A token's levels and cells depend on its position and its own cells or levels alone, not on its block. That
// holds per backend and device; between two of them last bits differ, which moves a decoded element by no more than its
// own last bits and a level only where its residual lies that close to a threshold.
// Thread contract: all calls are thread-safe and may run side by side, Release too: a codec in use is freed when the
// last call that holds it ends. On the CPU, products run on the calling thread.
class CodecBackend {
 public:
  virtual ~CodecBackend() = default;

  // Copies the codec to the device. kInvalidArgument names the unit or the plane and both sizes.
  virtual Status Upload(const CodecView& view, CodecHandle* handle) = 0;
  virtual Status Release(CodecHandle handle) = 0;

  // cells: fp16 [n_layer][K|V][n_tokens][kv], keys after RoPE at their positions. levels[u] [width, n_tokens] is filled
  // for coded units and not touched for others (it may be null). kInvalidArgument names the first cell that is not
  // finite. No allocation once warm.
  virtual Status Quantise(const CodecBlock& block, const uint16_t* cells, int32_t* const* levels) = 0;

  // The inverse. kOutOfRange names the cell that fp16 cannot hold; cells are then unspecified.
  virtual Status Reconstruct(const CodecBlock& block, const int32_t* const* levels, uint16_t* cells) = 0;

  // The products of one direction over a block of these tokens and nothing else: what a bench holds the others against.
  virtual Status Multiply(CodecHandle codec, int64_t first, int n_tokens) = 0;
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CODEC_BACKEND_H_

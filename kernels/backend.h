// Rebuilding omitted layers: the border between the service and the device (CPU or CUDA). Host only; includes no
// CUDA header. RISK-KV's online step: inverse RoPE on anchor keys -> X -> X B + d -> RoPE on predicted keys -> fp16.
#ifndef RISKKV_KERNELS_BACKEND_H_
#define RISKKV_KERNELS_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/status.h"

namespace riskkv::kernels {

// Which elements of a head are rotated together. kNone: keys carry no rotary embedding.
// kNeighbours: (2i, 2i+1), the llama architecture in GGUF. kHalves: (i, i + rotary_dim/2), qwen2 ("NEOX").
enum class RopePairing { kNone, kNeighbours, kHalves };

// theta(pos, i) = pos * freq_scale * freq_base^(-2i/rotary_dim) / freq_factors[i]; the first rotary_dim elements of a
// head turn, the others pass. freq_factors is empty (all one) or has rotary_dim/2 entries (Llama 3.1's rope_freqs).
struct RopeParams {
  RopePairing pairing = RopePairing::kNone;
  int rotary_dim = 0;
  float freq_base = 10000.0f;
  float freq_scale = 1.0f;
  std::vector<float> freq_factors;
};

enum class WeightType { kF32, kF16 };

// One group's folded predictor: Z = X B + d (RISK-KV eq. for the folded form, B = A P_T, d = b P_T + c_T).
// X [T, d_in]: for each anchor layer in order, K before RoPE [kv] then V [kv]; d_in = 2*kv*|anchors|.
// Z [T, d_out]: for each target layer in order, K before RoPE [kv] then V [kv]; d_out = 2*kv*|targets|.
// kv = n_head_kv * head_dim, element (head, dim) at head*head_dim + dim. Row-major, host memory, little endian.
struct GroupWeights {
  std::vector<int> anchors;
  std::vector<int> targets;
  const void* b = nullptr;     // [d_in, d_out] of `type`
  const void* bias = nullptr;  // [d_out] of `type`
  WeightType type = WeightType::kF32;
};

// What Upload copies from; the pointers need to live only during the call.
struct PredictorSetView {
  int n_head_kv = 0;
  int head_dim = 0;
  RopeParams rope;
  std::vector<GroupWeights> groups;
};

using SetHandle = uint64_t;  // 0 is never a handle

// One rebuild of one group over n tokens. All pointers are host memory owned by the caller and alive until Rebuild returns.
// Rows are fp16, [token][head][dim]; keys after RoPE at positions[t].
struct RebuildJob {
  SetHandle set = 0;
  int group = 0;
  int n_tokens = 0;
  const int32_t* positions = nullptr;          // [n_tokens], >= 0, ascending
  std::vector<const uint16_t*> anchor_k;       // |anchors| pointers, each [n_tokens, kv]
  std::vector<const uint16_t*> anchor_v;
  std::vector<uint16_t*> target_k;             // |targets| pointers, each [n_tokens, kv]
  std::vector<uint16_t*> target_v;
};

struct DeviceInfo {
  std::string backend;       // "cpu" or "cuda"
  std::string device;        // processor or GPU name
  std::size_t memory_bytes = 0;
  std::string note;          // why this backend was chosen, e.g. "no CUDA device (error 35), using the CPU"
};

// Tokens are computed in tiles of this many rows aligned at absolute positions (row = position % kTileTokens, missing
// rows zero), so a token's rebuilt bytes do not depend on which job, block or batch it came in: a second lossy move
// rebuilds the same bits. Holds per backend and device, not across them.
inline constexpr int kTileTokens = 128;

class CodecBackend;

// Thread contract: all calls are thread-safe; Rebuild calls on one backend may be serialised. Upload and Release may
// run beside Rebuild; a set in use by a Rebuild is freed when that ends.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const DeviceInfo& info() const = 0;
  // Copies the set to the device. kInvalidArgument names the group and both sizes on a shape error.
  virtual Status Upload(const PredictorSetView& view, SetHandle* handle) = 0;
  virtual Status Release(SetHandle handle) = 0;
  // Runs every job to its end; no allocation on the path once warm. kNotFound for an unknown set; a job that fails leaves
  // its target rows unspecified. A non-finite result is kInternal (a corrupt predictor must not reach a cache).
  virtual Status Rebuild(const std::vector<RebuildJob>& jobs) = 0;
  // The transforms of coded caches on the same device (codec_backend.h). Lives as long as the backend.
  virtual CodecBackend& codec() = 0;
};

enum class BackendChoice { kAuto, kCpu, kCuda };

// kAuto: CUDA when it is compiled in and a device answers, else the CPU, with the reason in info().note.
// kCuda without a usable device is kUnavailable. cpu_threads bounds the BLAS threads (1 beside a decode loop).
Status CreateBackend(BackendChoice choice, int cpu_threads, std::unique_ptr<Backend>* backend);

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_BACKEND_H_

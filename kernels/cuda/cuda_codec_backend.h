// The coded transforms on the device. Host code; only the module libriskkv_cuda.so is built from it.
#ifndef RISKKV_KERNELS_CUDA_CUDA_CODEC_BACKEND_H_
#define RISKKV_KERNELS_CUDA_CUDA_CODEC_BACKEND_H_

#include <map>
#include <mutex>

#include "kernels/codec_backend.h"
#include "kernels/cuda/codec_lane.h"
#include "kernels/cuda/cuda_codec.h"
#include "kernels/cuda/lane_pool.h"

namespace riskkv::kernels {

// Up to LanePool::kMaxLanes blocks run side by side, each on a stream of its own; more wait. The lanes are not the
// rebuild's, and made when a codec is first used.
class CudaCodecBackend final : public CodecBackend {
 public:
  Status Upload(const CodecView& view, CodecHandle* handle) override;
  Status Release(CodecHandle handle) override;
  Status Quantise(const CodecBlock& block, const uint16_t* cells, int32_t* const* levels) override;
  Status Reconstruct(const CodecBlock& block, const int32_t* const* levels, uint16_t* cells) override;
  Status Multiply(CodecHandle codec, int64_t first, int n_tokens) override;

 private:
  Status Find(CodecHandle handle, CudaCodecRef* codec);
  template <typename Work>
  Status OnLane(const Work& work);

  std::mutex mutex_;
  CodecHandle next_handle_ = 1;                 // guarded by mutex_
  std::map<CodecHandle, CudaCodecRef> codecs_;  // guarded by mutex_
  LanePool<CodecLane> lanes_;
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_CUDA_CODEC_BACKEND_H_

#include "kernels/cuda/cuda_codec_backend.h"

#include <memory>
#include <new>
#include <utility>

namespace riskkv::kernels {

Status CudaCodecBackend::Upload(const CodecView& view, CodecHandle* handle) {
  try {
    RISKKV_CUDA_RETURN(cudaSetDevice(kCudaDevice));
    CudaCodecRef codec;
    RISKKV_RETURN(MakeCudaCodec(view, &codec));
    std::lock_guard<std::mutex> lock(mutex_);
    codecs_.emplace(next_handle_, std::move(codec));
    *handle = next_handle_++;
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(Code::kResourceExhausted, "no host memory for a codec's upload");
  }
}

Status CudaCodecBackend::Release(CodecHandle handle) {
  CudaCodecRef last;  // freed after the lock is gone: cudaFree waits for the device
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = codecs_.find(handle);
  if (it == codecs_.end()) return UnknownCodecError(handle);
  last = std::move(it->second);
  codecs_.erase(it);
  return Status();
}

Status CudaCodecBackend::Find(CodecHandle handle, CudaCodecRef* codec) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = codecs_.find(handle);
  if (it == codecs_.end()) return UnknownCodecError(handle);
  *codec = it->second;
  return Status();
}

template <typename Work>
Status CudaCodecBackend::OnLane(const Work& work) {
  RISKKV_CUDA_RETURN(cudaSetDevice(kCudaDevice));
  std::unique_ptr<CodecLane> lane;
  try {
    RISKKV_RETURN(lanes_.Take(&lane));
  } catch (const std::bad_alloc&) {
    return Status(Code::kResourceExhausted, "no host memory for a codec's lane");
  }
  Status status = work(*lane);
  lanes_.Return(std::move(lane));
  return status;
}

Status CudaCodecBackend::Quantise(const CodecBlock& block, const uint16_t* cells, int32_t* const* levels) {
  CudaCodecRef codec;
  RISKKV_RETURN(Find(block.codec, &codec));
  RISKKV_RETURN(CheckCodecBlock(block, codec->shape, cells, levels));
  RISKKV_RETURN(CheckCells(block, codec->shape, cells));
  return OnLane([&](CodecLane& lane) { return lane.Quantise(*codec, block, cells, levels); });
}

Status CudaCodecBackend::Reconstruct(const CodecBlock& block, const int32_t* const* levels, uint16_t* cells) {
  CudaCodecRef codec;
  RISKKV_RETURN(Find(block.codec, &codec));
  RISKKV_RETURN(CheckCodecBlock(block, codec->shape, cells, levels));
  return OnLane([&](CodecLane& lane) { return lane.Reconstruct(*codec, block, levels, cells); });
}

Status CudaCodecBackend::Multiply(CodecHandle handle, int64_t first, int n_tokens) {
  CudaCodecRef codec;
  RISKKV_RETURN(Find(handle, &codec));
  RISKKV_RETURN(CheckCodecSpan(first, n_tokens));
  return OnLane([&](CodecLane& lane) { return lane.Multiply(*codec); });
}

}  // namespace riskkv::kernels

// A codec on the device.
#ifndef RISKKV_KERNELS_CUDA_CUDA_CODEC_H_
#define RISKKV_KERNELS_CUDA_CUDA_CODEC_H_

#include <memory>
#include <vector>

#include "kernels/codec_plan.h"
#include "kernels/cuda/buffers.h"

namespace riskkv::kernels {

// fp32: a decoder that rounded its inputs to fp16 would leave an encoder that did not by more than last bits, and
// these products are small beside what the device can do.
struct CudaCodecUnit {
  DeviceBuffer rotation;   // fp32 [width, width]
  DeviceBuffer predictor;  // fp32 [from, width]
  DeviceBuffer planes;     // int32 [planes], 2 * layer + part
  bool has_keys = false;
};

// Immutable once made; freed when the last call that holds it has ended.
struct CudaCodec {
  CodecShape shape;
  DeviceBuffer mean, scale;  // fp32, as CodecView's
  DeviceBuffer frequency;    // double [rotary_dim / 2]
  std::vector<CudaCodecUnit> units;
};

using CudaCodecRef = std::shared_ptr<const CudaCodec>;

// Checks and copies. Throws std::bad_alloc.
Status MakeCudaCodec(const CodecView& view, CudaCodecRef* codec);

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_CUDA_CODEC_H_

// One caller's way through the device with a codec's blocks: a queue, staging and the units' rows.
#ifndef RISKKV_KERNELS_CUDA_CODEC_LANE_H_
#define RISKKV_KERNELS_CUDA_CODEC_LANE_H_

#include <cstdint>
#include <memory>

#include "kernels/cuda/buffers.h"
#include "kernels/cuda/codec_args.h"
#include "kernels/cuda/cuda_codec.h"
#include "kernels/cuda/queue.h"

namespace riskkv::kernels {

// A block is one sequence of copies, launches and products, unit by unit, without a word from the host in between.
// Products have kTileTokens rows, a token's at position % kTileTokens: the shape is fixed, so cuBLAS always takes the same
// algorithm. All arguments are checked. Thread contract: one caller at a time.
class CodecLane {
 public:
  static Status Create(std::unique_ptr<CodecLane>* lane);

  // As CodecBackend's. Nothing is in flight when they return, whatever they return.
  Status Quantise(const CudaCodec& codec, const CodecBlock& block, const uint16_t* cells, int32_t* const* levels);
  Status Reconstruct(const CudaCodec& codec, const CodecBlock& block, const int32_t* const* levels, uint16_t* cells);
  Status Multiply(const CudaCodec& codec);

 private:
  CodecLane() = default;
  Status Init();
  Status Reserve(const CodecShape& shape);
  Status ReserveZeros(std::size_t bytes, DeviceBuffer* buffer);
  Status Settle(Status enqueued);

  Status CopyCellsIn(const CodecShape& shape, const CodecBlock& block, const uint16_t* cells);
  Status EnqueueQuantise(const CudaCodec& codec, const CodecBlock& block, const uint16_t* cells);
  Status EnqueueReconstruct(const CudaCodec& codec, const CodecBlock& block, const int32_t* const* levels,
                            const uint16_t* cells);
  Status EnqueueMultiply(const CudaCodec& codec);

  // Each enqueues one step of unit u.
  Status Rotate(const CudaCodec& codec, const CodecBlock& block, int u, float* y);
  Status Predict(const CudaCodec& codec, int u, float* p);
  Status QuantiseUnit(const CudaCodec& codec, const CodecBlock& block, int u);
  Status DecodeUnit(const CudaCodec& codec, const CodecBlock& block, int u, const int32_t* levels);
  Status RestoreUnit(const CudaCodec& codec, const CodecBlock& block, int u);
  Status Product(cublasOperation_t op, const float* matrix, int k, int n, const float* x, float add, float* out);

  UnitRows RowsOf(const CudaCodec& codec, const CodecBlock& block, int u) const;
  LevelArgs LevelsOf(const CudaCodec& codec, const CodecBlock& block, int u) const;
  float* Z(const CodecShape& shape, int u) const;

  PinnedBuffer cells_host_, levels_host_, bad_host_;
  DeviceBuffer cells_, levels_, bad_;
  DeviceBuffer x_, y_, p_;  // fp32 [kTileTokens, widest]
  DeviceBuffer z_;          // fp32, for each unit [kTileTokens, width]
  DeviceEvent done_;
  DeviceQueue queue_;  // after what its work uses: it waits for that when it goes
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_CODEC_LANE_H_

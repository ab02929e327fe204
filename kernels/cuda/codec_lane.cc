#include "kernels/cuda/codec_lane.h"

#include <cstring>
#include <utility>

#include "kernels/cuda/chunk.h"
#include "kernels/cuda/codec_launch.cuh"

namespace riskkv::kernels {
namespace {

constexpr std::size_t kRowsOfTile = kTileTokens;

std::size_t LevelBytes(const UnitShape& unit, int n_tokens) {
  return sizeof(int32_t) * static_cast<std::size_t>(unit.width) * n_tokens;
}

// First of a unit's levels among those of all units.
std::size_t LevelOffset(const UnitShape& unit, int n_tokens) {
  return static_cast<std::size_t>(unit.offset) * n_tokens;
}

bool AnyExact(const CodecBlock& block) {
  for (int u = 0; u < block.n_units; ++u) {
    if (CodingOf(block.steps[u]) == UnitCoding::kExact) return true;
  }
  return false;
}

}  // namespace

Status CodecLane::Create(std::unique_ptr<CodecLane>* lane) {
  std::unique_ptr<CodecLane> made(new CodecLane);
  RISKKV_RETURN(made->Init());
  *lane = std::move(made);
  return Status();
}

Status CodecLane::Init() {
  RISKKV_RETURN(done_.Init());
  RISKKV_RETURN(bad_.Reserve(sizeof(kNoneBad)));
  RISKKV_RETURN(bad_host_.Reserve(sizeof(kNoneBad)));
  return queue_.Init();
}

// Rows that no token filled are multiplied along: they must be numbers.
Status CodecLane::ReserveZeros(std::size_t bytes, DeviceBuffer* buffer) {
  if (bytes <= buffer->size()) return Status();
  RISKKV_RETURN(buffer->Reserve(bytes));
  const cudaError_t error = cudaMemsetAsync(buffer->data(), 0, bytes, queue_.stream());
  if (error != cudaSuccess) *buffer = DeviceBuffer();  // the next call tries again
  return CudaStatus(error, "rows of zeros");
}

Status CodecLane::Reserve(const CodecShape& shape) {
  const std::size_t all = shape.cells(kTileTokens), tile = sizeof(float) * kRowsOfTile * shape.widest();
  RISKKV_RETURN(cells_host_.Reserve(sizeof(uint16_t) * all));
  RISKKV_RETURN(cells_.Reserve(sizeof(uint16_t) * all));
  RISKKV_RETURN(levels_host_.Reserve(sizeof(int32_t) * all));
  RISKKV_RETURN(levels_.Reserve(sizeof(int32_t) * all));
  RISKKV_RETURN(ReserveZeros(tile, &x_));
  RISKKV_RETURN(y_.Reserve(tile));
  RISKKV_RETURN(p_.Reserve(tile));
  return ReserveZeros(sizeof(float) * all, &z_);
}

// Waits for what was enqueued, however far that came: the caller's codec and this lane's buffers are then free.
Status CodecLane::Settle(Status enqueued) {
  if (enqueued.ok()) {
    const auto wait = [this] {
      RISKKV_CUDA_RETURN(cudaEventRecord(done_.get(), queue_.stream()));
      RISKKV_CUDA_RETURN(cudaEventSynchronize(done_.get()));
      return Status();
    };
    enqueued = wait();
  }
  if (!enqueued.ok()) cudaStreamSynchronize(queue_.stream());
  return enqueued;
}

float* CodecLane::Z(const CodecShape& shape, int u) const {
  return z_.as<float>() + kRowsOfTile * shape.units[u].offset;
}

UnitRows CodecLane::RowsOf(const CudaCodec& codec, const CodecBlock& block, int u) const {
  const HeadShape& heads = codec.shape.heads;
  const CudaCodecUnit& unit = codec.units[u];
  UnitRows rows{};
  rows.first = static_cast<int32_t>(block.first);
  rows.n_tokens = block.n_tokens;
  rows.kv = heads.kv;
  rows.n_planes = static_cast<int>(codec.shape.units[u].planes.size());
  rows.planes = unit.planes.as<const int32_t>();
  rows.mean = codec.mean.as<const float>();
  rows.scale = codec.scale.as<const float>();
  rows.rope = {heads.pairing, heads.head_dim, unit.has_keys ? heads.rotary_dim : 0, codec.frequency.as<const double>()};
  return rows;
}

LevelArgs CodecLane::LevelsOf(const CudaCodec& codec, const CodecBlock& block, int u) const {
  const UnitShape& unit = codec.shape.units[u];
  LevelArgs args{};
  args.first = static_cast<int32_t>(block.first);
  args.n_tokens = block.n_tokens;
  args.width = unit.width;
  args.step = block.steps[u];
  args.rule = codec.shape.rule;
  args.y = y_.as<const float>();
  args.p = unit.from > 0 ? p_.as<const float>() : nullptr;
  args.levels = levels_.as<int32_t>() + LevelOffset(unit, block.n_tokens);
  args.z = Z(codec.shape, u);
  return args;
}

// Row-major out [rows, n] = x [rows, k] matrix [k, n] + add * out is column-major out' = matrix' x'. Transposed: the
// matrix is [n, k].
Status CodecLane::Product(cublasOperation_t op, const float* matrix, int k, int n, const float* x, float add,
                          float* out) {
  const float one = 1.0f;
  RISKKV_CUBLAS_RETURN(cublasGemmEx(queue_.cublas(), op, CUBLAS_OP_N, n, kTileTokens, k, &one, matrix, CUDA_R_32F,
                                    op == CUBLAS_OP_N ? n : k, x, CUDA_R_32F, k, &add, out, CUDA_R_32F, n,
                                    CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  return Status();
}

Status CodecLane::Rotate(const CudaCodec& codec, const CodecBlock& block, int u, float* y) {
  RISKKV_CUDA_RETURN(LaunchCentre({RowsOf(codec, block, u), cells_.as<const uint16_t>(), x_.as<float>()},
                                  queue_.stream()));
  const int width = codec.shape.units[u].width;
  return Product(CUBLAS_OP_N, codec.units[u].rotation.as<const float>(), width, width, x_.as<const float>(), 0.0f, y);
}

// One product a condition, each on the rows of the predictor that are its: nothing is gathered.
Status CodecLane::Predict(const CudaCodec& codec, int u, float* p) {
  const UnitShape& unit = codec.shape.units[u];
  const float* matrix = codec.units[u].predictor.as<const float>();
  float add = 0.0f;
  for (int c : unit.conditions) {
    const int width = codec.shape.units[c].width;
    RISKKV_RETURN(Product(CUBLAS_OP_N, matrix, width, unit.width, Z(codec.shape, c), add, p));
    matrix += static_cast<std::size_t>(width) * unit.width;
    add = 1.0f;
  }
  return Status();
}

Status CodecLane::CopyCellsIn(const CodecShape& shape, const CodecBlock& block, const uint16_t* cells) {
  const std::size_t bytes = sizeof(uint16_t) * shape.cells(block.n_tokens);
  std::memcpy(cells_host_.data(), cells, bytes);
  RISKKV_CUDA_RETURN(
      cudaMemcpyAsync(cells_.data(), cells_host_.data(), bytes, cudaMemcpyHostToDevice, queue_.stream()));
  return Status();
}

Status CodecLane::QuantiseUnit(const CudaCodec& codec, const CodecBlock& block, int u) {
  RISKKV_RETURN(Rotate(codec, block, u, y_.as<float>()));
  RISKKV_RETURN(Predict(codec, u, p_.as<float>()));
  const LevelArgs args = LevelsOf(codec, block, u);
  RISKKV_CUDA_RETURN(LaunchQuantise(args, queue_.stream()));
  const UnitShape& unit = codec.shape.units[u];
  RISKKV_CUDA_RETURN(cudaMemcpyAsync(levels_host_.as<int32_t>() + LevelOffset(unit, block.n_tokens), args.levels,
                                     LevelBytes(unit, block.n_tokens), cudaMemcpyDeviceToHost, queue_.stream()));
  return Status();
}

// z of a unit that is coded (levels) or omitted (null): without conditions, nothing is predicted.
Status CodecLane::DecodeUnit(const CudaCodec& codec, const CodecBlock& block, int u, const int32_t* levels) {
  const UnitShape& unit = codec.shape.units[u];
  if (levels == nullptr) {
    if (unit.from > 0) return Predict(codec, u, Z(codec.shape, u));
    RISKKV_CUDA_RETURN(
        cudaMemsetAsync(Z(codec.shape, u), 0, sizeof(float) * kRowsOfTile * unit.width, queue_.stream()));
    return Status();
  }
  const LevelArgs args = LevelsOf(codec, block, u);
  int32_t* staged = levels_host_.as<int32_t>() + LevelOffset(unit, block.n_tokens);
  std::memcpy(staged, levels, LevelBytes(unit, block.n_tokens));
  RISKKV_CUDA_RETURN(cudaMemcpyAsync(args.levels, staged, LevelBytes(unit, block.n_tokens), cudaMemcpyHostToDevice,
                                     queue_.stream()));
  RISKKV_RETURN(Predict(codec, u, p_.as<float>()));
  RISKKV_CUDA_RETURN(LaunchDequantise(args, queue_.stream()));
  return Status();
}

Status CodecLane::RestoreUnit(const CudaCodec& codec, const CodecBlock& block, int u) {
  const int width = codec.shape.units[u].width;
  RISKKV_RETURN(Product(CUBLAS_OP_T, codec.units[u].rotation.as<const float>(), width, width, Z(codec.shape, u), 0.0f,
                        y_.as<float>()));
  RISKKV_CUDA_RETURN(LaunchRestore({RowsOf(codec, block, u), y_.as<const float>(), cells_.as<uint16_t>(), u,
                                    bad_.as<unsigned long long>()},
                                   queue_.stream()));
  return Status();
}

Status CodecLane::EnqueueQuantise(const CudaCodec& codec, const CodecBlock& block, const uint16_t* cells) {
  RISKKV_RETURN(CopyCellsIn(codec.shape, block, cells));
  for (int u = 0; u < block.n_units; ++u) {
    switch (CodingOf(block.steps[u])) {
      case UnitCoding::kExact:
        RISKKV_RETURN(Rotate(codec, block, u, Z(codec.shape, u)));
        break;
      case UnitCoding::kCoded:
        RISKKV_RETURN(QuantiseUnit(codec, block, u));
        break;
      case UnitCoding::kOmitted:
        RISKKV_RETURN(DecodeUnit(codec, block, u, nullptr));
        break;
    }
  }
  return Status();
}

Status CodecLane::Quantise(const CudaCodec& codec, const CodecBlock& block, const uint16_t* cells,
                           int32_t* const* levels) {
  Status enqueued = Reserve(codec.shape);
  if (enqueued.ok()) enqueued = EnqueueQuantise(codec, block, cells);
  RISKKV_RETURN(Settle(std::move(enqueued)));
  for (int u = 0; u < block.n_units; ++u) {
    if (CodingOf(block.steps[u]) != UnitCoding::kCoded) continue;
    const UnitShape& unit = codec.shape.units[u];
    std::memcpy(levels[u], levels_host_.as<int32_t>() + LevelOffset(unit, block.n_tokens),
                LevelBytes(unit, block.n_tokens));
  }
  return Status();
}

Status CodecLane::EnqueueReconstruct(const CudaCodec& codec, const CodecBlock& block, const int32_t* const* levels,
                                     const uint16_t* cells) {
  if (AnyExact(block)) RISKKV_RETURN(CopyCellsIn(codec.shape, block, cells));
  RISKKV_CUDA_RETURN(cudaMemsetAsync(bad_.data(), 0xff, sizeof(kNoneBad), queue_.stream()));
  for (int u = 0; u < block.n_units; ++u) {
    const UnitCoding coding = CodingOf(block.steps[u]);
    if (coding == UnitCoding::kExact) {
      RISKKV_RETURN(Rotate(codec, block, u, Z(codec.shape, u)));
      continue;
    }
    RISKKV_RETURN(DecodeUnit(codec, block, u, coding == UnitCoding::kCoded ? levels[u] : nullptr));
    RISKKV_RETURN(RestoreUnit(codec, block, u));
  }
  RISKKV_CUDA_RETURN(cudaMemcpyAsync(cells_host_.data(), cells_.data(),
                                     sizeof(uint16_t) * codec.shape.cells(block.n_tokens), cudaMemcpyDeviceToHost,
                                     queue_.stream()));
  RISKKV_CUDA_RETURN(
      cudaMemcpyAsync(bad_host_.data(), bad_.data(), sizeof(kNoneBad), cudaMemcpyDeviceToHost, queue_.stream()));
  return Status();
}

Status CodecLane::Reconstruct(const CudaCodec& codec, const CodecBlock& block, const int32_t* const* levels,
                              uint16_t* cells) {
  const CodecShape& shape = codec.shape;
  Status enqueued = Reserve(shape);
  if (enqueued.ok()) enqueued = EnqueueReconstruct(codec, block, levels, cells);
  RISKKV_RETURN(Settle(std::move(enqueued)));
  const uint64_t bad = *bad_host_.as<uint64_t>();
  if (bad != kNoneBad) {
    const int unit = static_cast<int>((bad >> 32) / kTileTokens);
    return CellOverflowError(shape, unit, static_cast<int>(bad & 0xffffffffu),
                             block.first + static_cast<int64_t>((bad >> 32) % kTileTokens));
  }
  const std::size_t row = static_cast<std::size_t>(shape.heads.kv) * block.n_tokens;
  for (int u = 0; u < block.n_units; ++u) {
    if (CodingOf(block.steps[u]) == UnitCoding::kExact) continue;
    for (CodecPlane plane : shape.units[u].planes) {
      const std::size_t at = CellRow(plane, 0, block.n_tokens, shape.heads.kv);
      std::memcpy(cells + at, cells_host_.as<uint16_t>() + at, sizeof(uint16_t) * row);
    }
  }
  return Status();
}

Status CodecLane::EnqueueMultiply(const CudaCodec& codec) {
  for (int u = 0; u < static_cast<int>(codec.units.size()); ++u) {
    const int width = codec.shape.units[u].width;
    RISKKV_RETURN(Predict(codec, u, p_.as<float>()));
    RISKKV_RETURN(Product(CUBLAS_OP_T, codec.units[u].rotation.as<const float>(), width, width, Z(codec.shape, u),
                          0.0f, y_.as<float>()));
  }
  return Status();
}

Status CodecLane::Multiply(const CudaCodec& codec) {
  Status enqueued = Reserve(codec.shape);
  if (enqueued.ok()) enqueued = EnqueueMultiply(codec);
  return Settle(std::move(enqueued));
}

}  // namespace riskkv::kernels

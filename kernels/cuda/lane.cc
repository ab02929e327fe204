#include "kernels/cuda/lane.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/launch.cuh"

namespace riskkv::kernels {
namespace {

Rotary RotaryOf(const CudaSet& set) {
  return {set.shape.pairing, set.shape.head_dim, set.shape.rotary_dim, set.frequency.as<double>()};
}

}  // namespace

void SlotSizes::Include(const SetShape& shape) {
  for (const GroupShape& group : shape.groups) {
    const StagingLayout layout = LayOut(group, shape.kv, kChunkTokens);
    in = std::max(in, layout.in_bytes);
    out = std::max(out, layout.out_bytes);
    x = std::max(x, sizeof(uint16_t) * kChunkTokens * group.d_in);
    z = std::max(z, sizeof(float) * kChunkTokens * group.d_out);
  }
}

Status Lane::Create(std::unique_ptr<Lane>* lane) {
  std::unique_ptr<Lane> made(new Lane);
  RISKKV_RETURN(made->Init());
  *lane = std::move(made);
  return Status();
}

Status Lane::Init() {
  for (Slot& slot : slots_) RISKKV_RETURN(slot.done.Init());
  return queue_.Init();
}

Status Lane::Reserve(const SlotSizes& sizes) {
  for (Slot& slot : slots_) {
    RISKKV_RETURN(slot.in_host.Reserve(sizes.in));
    RISKKV_RETURN(slot.in.Reserve(sizes.in));
    RISKKV_RETURN(slot.x.Reserve(sizes.x));
    RISKKV_RETURN(slot.z.Reserve(sizes.z));
    RISKKV_RETURN(slot.out_host.Reserve(sizes.out));
    RISKKV_RETURN(slot.out.Reserve(sizes.out));
  }
  return Status();
}

// One product a tile, always kTileTokens rows: with the shape fixed, cuBLAS always takes the same algorithm, so a row's
// bits do not depend on how many tiles came along. Row-major Z = X B is column-major Z' = B' X'.
Status Lane::Multiply(const GroupShape& shape, const CudaGroup& group, int n_tiles, const Slot& slot) {
  const float one = 1.0f, zero = 0.0f;
  for (int i = 0; i < n_tiles; ++i) {
    const std::size_t row = static_cast<std::size_t>(i) * kTileTokens;
    RISKKV_CUBLAS_RETURN(cublasGemmEx(queue_.cublas(), CUBLAS_OP_N, CUBLAS_OP_N, shape.d_out, kTileTokens, shape.d_in,
                                      &one, group.b.data(), CUDA_R_16F, shape.d_out,
                                      slot.x.as<uint16_t>() + row * shape.d_in, CUDA_R_16F, shape.d_in, &zero,
                                      slot.z.as<float>() + row * shape.d_out, CUDA_R_32F, shape.d_out,
                                      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  }
  return Status();
}

Status Lane::Start(const RebuildJob& job, const CudaSet& set, const Chunk& chunk, Slot* slot) {
  const GroupShape& shape = set.shape.groups[job.group];
  const CudaGroup& group = set.groups[job.group];
  const StagingLayout layout = LayOut(shape, set.shape.kv, chunk.n_tokens);
  FillInput(job, set.shape, tiles_, chunk, slot->in_host.data());
  slot->chunk = &chunk;  // from here on something may be in flight
  RISKKV_CUDA_RETURN(
      cudaMemcpyAsync(slot->in.data(), slot->in_host.data(), layout.in_bytes, cudaMemcpyHostToDevice, queue_.stream()));
  const int rows = chunk.n_tiles * kTileTokens;
  if (chunk.n_tokens < rows) {
    RISKKV_CUDA_RETURN(cudaMemsetAsync(slot->x.data(), 0, sizeof(uint16_t) * rows * shape.d_in, queue_.stream()));
  }
  RISKKV_CUDA_RETURN(cudaMemsetAsync(slot->out.data() + layout.first_bad, 0xff, sizeof(kNoneBad), queue_.stream()));
  const auto* token_rows = slot->in.as<const int32_t>(layout.rows);
  const auto* positions = slot->in.as<const int32_t>(layout.positions);
  RISKKV_CUDA_RETURN(LaunchGather(
      {slot->in.as<const uint16_t>(layout.anchors), token_rows, positions, chunk.n_tokens,
       static_cast<int>(shape.anchors.size()), set.shape.kv, RotaryOf(set), slot->x.as<uint16_t>()},
      queue_.stream()));
  RISKKV_RETURN(Multiply(shape, group, chunk.n_tiles, *slot));
  RISKKV_CUDA_RETURN(LaunchFinish(
      {slot->z.as<const float>(), group.bias.as<const float>(), token_rows, positions, chunk.n_tokens,
       static_cast<int>(shape.targets.size()), set.shape.kv, RotaryOf(set), slot->out.as<uint16_t>(layout.targets),
       slot->out.as<unsigned long long>(layout.first_bad)},
      queue_.stream()));
  RISKKV_CUDA_RETURN(cudaMemcpyAsync(slot->out_host.data(), slot->out.data(), layout.out_bytes, cudaMemcpyDeviceToHost,
                                     queue_.stream()));
  RISKKV_CUDA_RETURN(cudaEventRecord(slot->done.get(), queue_.stream()));
  return Status();
}

// Waits for a slot and hands its rows over. A non-finite result goes to *result, the first one stays.
Status Lane::Finish(const std::vector<RebuildJob>& jobs, Slot* slot, Status* result) {
  if (slot->chunk == nullptr) return Status();
  const Chunk& chunk = *slot->chunk;
  RISKKV_CUDA_RETURN(cudaEventSynchronize(slot->done.get()));
  slot->chunk = nullptr;
  Status status = DrainOutput(jobs[chunk.job], sets_[chunk.job]->shape, chunk, slot->out_host.data());
  if (!status.ok() && result->ok()) *result = std::move(status);
  return Status();
}

Status Lane::RunChunks(const std::vector<RebuildJob>& jobs, Status* result) {
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    Slot& slot = slots_[i % kSlots];
    RISKKV_RETURN(Finish(jobs, &slot, result));
    RISKKV_RETURN(Start(jobs[chunks_[i].job], *sets_[chunks_[i].job], chunks_[i], &slot));
  }
  for (std::size_t i = chunks_.size(); i < chunks_.size() + kSlots; ++i) {
    RISKKV_RETURN(Finish(jobs, &slots_[i % kSlots], result));
  }
  return Status();
}

Status Lane::Run(const std::vector<RebuildJob>& jobs) {
  tiles_.clear();
  chunks_.clear();
  for (std::size_t j = 0; j < jobs.size(); ++j) AppendTiles(jobs[j], j, &tiles_);
  AppendChunks(tiles_, &chunks_);
  Status result;
  const Status broken = RunChunks(jobs, &result);
  if (broken.ok()) return result;
  // The caller's sets and this lane's buffers are free again only when nothing is in flight.
  cudaStreamSynchronize(queue_.stream());
  for (Slot& slot : slots_) slot.chunk = nullptr;
  return broken;
}

}  // namespace riskkv::kernels

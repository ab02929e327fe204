#include "kernels/cuda/launch.cuh"

namespace riskkv::kernels {
namespace {

constexpr int kThreads = 256;

// Cosines and sines of the block's position, shared by all its layers and heads. The angle is reduced in double
// precision, two dozen instructions a pair, because fp32 loses it at long contexts; sincosf of a reduced angle is
// accurate to two steps.
__device__ void FillTrig(const Rotary& rope, int32_t position, float* cosine, float* sine) {
  for (int i = threadIdx.x; i < rope.rotary_dim / 2; i += blockDim.x) {
    sincosf(static_cast<float>(RopeAngle(position, rope.frequency[i])), &sine[i], &cosine[i]);
  }
  __syncthreads();
}

// One block a token; neighbouring threads on neighbouring columns, so reads and writes coalesce.
__global__ void GatherKernel(GatherArgs args) {
  extern __shared__ float trig[];
  float* cosine = trig;
  float* sine = trig + args.rope.rotary_dim / 2;
  const int token = blockIdx.x;
  FillTrig(args.rope, args.positions[token], cosine, sine);
  uint16_t* x = args.x + static_cast<std::size_t>(args.rows[token]) * args.d_in();
  for (int column = threadIdx.x; column < args.d_in(); column += blockDim.x) {
    x[column] = GatherElement(args, token, column, cosine, sine);
  }
}

__global__ void FinishKernel(FinishArgs args) {
  extern __shared__ float trig[];
  float* cosine = trig;
  float* sine = trig + args.rope.rotary_dim / 2;
  const int token = blockIdx.x;
  FillTrig(args.rope, args.positions[token], cosine, sine);
  for (int column = threadIdx.x; column < args.d_out(); column += blockDim.x) {
    const uint16_t value = FinishElement(args, token, column, cosine, sine);
    args.targets[FinishIndex(args, token, column)] = value;
    if ((value & 0x7c00u) == 0x7c00u) {
      // Never on the path of a sound predictor. The minimum makes the message the same on every run.
      atomicMin(args.first_bad, static_cast<unsigned long long>(token) * args.d_out() + column);
    }
  }
}

std::size_t TrigBytes(const Rotary& rope) { return sizeof(float) * rope.rotary_dim; }

}  // namespace

cudaError_t LaunchGather(const GatherArgs& args, cudaStream_t stream) {
  GatherKernel<<<args.n_tokens, kThreads, TrigBytes(args.rope), stream>>>(args);
  return cudaGetLastError();
}

cudaError_t LaunchFinish(const FinishArgs& args, cudaStream_t stream) {
  FinishKernel<<<args.n_tokens, kThreads, TrigBytes(args.rope), stream>>>(args);
  return cudaGetLastError();
}

cudaError_t ProbeKernels() {
  cudaFuncAttributes attributes;
  if (const cudaError_t error = cudaFuncGetAttributes(&attributes, GatherKernel); error != cudaSuccess) return error;
  return cudaFuncGetAttributes(&attributes, FinishKernel);
}

}  // namespace riskkv::kernels

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/trig.cuh"

namespace riskkv::kernels {
namespace {

constexpr int kThreads = 256;

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

#include "kernels/cuda/codec_launch.cuh"
#include "kernels/cuda/trig.cuh"

namespace riskkv::kernels {
namespace {

constexpr int kCodecThreads = 256;

// One block a token, as in launch.cu.
__global__ void CentreKernel(CentreArgs args) {
  extern __shared__ float codec_trig[];
  const UnitRows& unit = args.unit;
  float* cosine = codec_trig;
  float* sine = codec_trig + unit.rope.rotary_dim / 2;
  const int token = blockIdx.x;
  FillTrig(unit.rope, unit.position(token), cosine, sine);
  float* x = args.x + unit.row(token);
  for (int column = threadIdx.x; column < unit.width(); column += blockDim.x) {
    x[column] = CentreElementAt(args, token, column, cosine, sine);
  }
}

// Levels lie by column: neighbouring tokens are neighbours there, and strided here. A unit's share of a block is small
// enough for the second level cache to mend that.
__global__ void QuantiseKernel(LevelArgs args) {
  for (int column = threadIdx.x; column < args.width; column += blockDim.x) {
    QuantiseElementAt(args, blockIdx.x, column);
  }
}

__global__ void DequantiseKernel(LevelArgs args) {
  for (int column = threadIdx.x; column < args.width; column += blockDim.x) {
    DequantiseElementAt(args, blockIdx.x, column);
  }
}

__global__ void RestoreKernel(RestoreArgs args) {
  extern __shared__ float codec_trig[];
  const UnitRows& unit = args.unit;
  float* cosine = codec_trig;
  float* sine = codec_trig + unit.rope.rotary_dim / 2;
  const int token = blockIdx.x;
  FillTrig(unit.rope, unit.position(token), cosine, sine);
  for (int column = threadIdx.x; column < unit.width(); column += blockDim.x) {
    const uint16_t value = RestoreElementAt(args, token, column, cosine, sine);
    args.cells[unit.cell(token, column)] = value;
    // The minimum makes the message the same on every run.
    if ((value & 0x7c00u) == 0x7c00u) atomicMin(args.first_bad, BadCell(args.index, token, column));
  }
}

}  // namespace

cudaError_t LaunchCentre(const CentreArgs& args, cudaStream_t stream) {
  CentreKernel<<<args.unit.n_tokens, kCodecThreads, TrigBytes(args.unit.rope), stream>>>(args);
  return cudaGetLastError();
}

cudaError_t LaunchQuantise(const LevelArgs& args, cudaStream_t stream) {
  QuantiseKernel<<<args.n_tokens, kCodecThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t LaunchDequantise(const LevelArgs& args, cudaStream_t stream) {
  DequantiseKernel<<<args.n_tokens, kCodecThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t LaunchRestore(const RestoreArgs& args, cudaStream_t stream) {
  RestoreKernel<<<args.unit.n_tokens, kCodecThreads, TrigBytes(args.unit.rope), stream>>>(args);
  return cudaGetLastError();
}

}  // namespace riskkv::kernels

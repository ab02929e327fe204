// The one matrix product of a tile: Z[kTileTokens, n] = X[kTileTokens, k] B[k, n], row-major fp32.
#ifndef RISKKV_KERNELS_CPU_SGEMM_H_
#define RISKKV_KERNELS_CPU_SGEMM_H_

#include <string>

namespace riskkv::kernels {

// OpenBLAS when it is compiled in, else the plain loops. Runs on the calling thread only; the backend's own threads
// take one tile each, so the order of additions does not depend on how many there are.
void GemmTile(const float* x, const float* b, float* z, int n, int k);

// The plain loops, always compiled: what a machine without OpenBLAS runs.
void GemmTilePlain(const float* x, const float* b, float* z, int n, int k);

// Holds OpenBLAS to one thread a call. The setting is the process's: code elsewhere that wants more sets it around its
// own calls, and Rebuild sets it back.
void HoldBlasToOneThread();

// For info(): "OpenBLAS SkylakeX" or "plain loops".
std::string GemmName();

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CPU_SGEMM_H_

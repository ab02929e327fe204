// The one symbol of libriskkv_cuda.so. The CUDA backend is a module loaded at run time, so that one binary starts on
// machines without a GPU, a driver or the CUDA libraries. Host only.
#ifndef RISKKV_KERNELS_CUDA_FACTORY_H_
#define RISKKV_KERNELS_CUDA_FACTORY_H_

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/codec_backend.h"

namespace riskkv::kernels {

// Both sides were compiled against the same backend.h when this agrees: C++ objects cross this border. Raise the
// version when a virtual function or the meaning of a field changes; the sizes catch a forgotten raise.
inline constexpr uint64_t kCudaInterfaceVersion = 2;
inline constexpr uint64_t kCudaInterface = kCudaInterfaceVersion << 48 ^ uint64_t{sizeof(RebuildJob)} << 36 ^
                                           uint64_t{sizeof(PredictorSetView)} << 24 ^
                                           uint64_t{sizeof(GroupWeights)} << 12 ^ uint64_t{sizeof(DeviceInfo)} ^
                                           uint64_t{sizeof(CodecView)} << 30 ^ uint64_t{sizeof(CodecUnit)} << 18 ^
                                           uint64_t{sizeof(CodecBlock)} << 6;

// Returns a Code as int. On success *backend is owned by the caller; otherwise `message` (zero-terminated, cut at
// `size`) says why.
using CudaFactory = int (*)(uint64_t interface, Backend** backend, char* message, std::size_t size);
inline constexpr char kCudaFactoryName[] = "riskkv_cuda_create_backend";

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CUDA_FACTORY_H_

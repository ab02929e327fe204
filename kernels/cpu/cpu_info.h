// The processor's name and the machine's memory, for DeviceInfo.
#ifndef RISKKV_KERNELS_CPU_CPU_INFO_H_
#define RISKKV_KERNELS_CPU_CPU_INFO_H_

#include <cstddef>
#include <string>

namespace riskkv::kernels {

std::string CpuName();
std::size_t CpuMemoryBytes();

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CPU_CPU_INFO_H_

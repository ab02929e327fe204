#include "kernels/cuda/cuda_backend.h"

#include <new>
#include <string>
#include <utility>

#include "kernels/cuda/launch.cuh"

namespace riskkv::kernels {
namespace {

Status OutOfHostMemory(const char* what) {
  return Status(Code::kResourceExhausted, std::string("no host memory for ") + what);
}

}  // namespace

Status CudaBackend::Create(std::unique_ptr<Backend>* backend) {
  std::unique_ptr<CudaBackend> made(new CudaBackend);
  RISKKV_RETURN(made->Init());
  *backend = std::move(made);
  return Status();
}

Status CudaBackend::Init() {
  int count = 0;  // an error leaves it untouched
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    return Status(Code::kUnavailable, "no CUDA device (error " + std::to_string(static_cast<int>(error)) + ", " +
                                          cudaGetErrorString(error) + ")");
  }
  RISKKV_CUDA_RETURN(cudaSetDevice(kCudaDevice));
  cudaDeviceProp device;
  RISKKV_CUDA_RETURN(cudaGetDeviceProperties(&device, kCudaDevice));
  const std::string capability = std::to_string(device.major) + "." + std::to_string(device.minor);
  const std::string probe = "code for " + std::string(device.name) + " (compute capability " + capability + ")";
  RISKKV_RETURN(CudaStatus(ProbeKernels(), probe.c_str()));
  int driver = 0, runtime = 0;
  RISKKV_CUDA_RETURN(cudaDriverGetVersion(&driver));
  RISKKV_CUDA_RETURN(cudaRuntimeGetVersion(&runtime));
  info_.backend = "cuda";
  info_.device = device.name;
  info_.memory_bytes = device.totalGlobalMem;
  info_.note = "CUDA device " + std::to_string(kCudaDevice) + " of " + std::to_string(count) + ", compute capability " +
               capability + ", driver " + std::to_string(driver) + ", runtime " + std::to_string(runtime);
  // The first lane now: a device that cuBLAS cannot start on is no device.
  std::unique_ptr<Lane> lane;
  RISKKV_RETURN(lanes_.Take(&lane));
  lanes_.Return(std::move(lane));
  return Status();
}

Status CudaBackend::Upload(const PredictorSetView& view, SetHandle* handle) {
  try {
    RISKKV_CUDA_RETURN(cudaSetDevice(kCudaDevice));
    CudaSetRef set;
    RISKKV_RETURN(MakeCudaSet(view, &set));
    std::lock_guard<std::mutex> lock(sets_mutex_);
    sizes_.Include(set->shape);
    *handle = next_handle_++;
    sets_.emplace(*handle, std::move(set));
    return Status();
  } catch (const std::bad_alloc&) {
    return OutOfHostMemory("a predictor set's upload");
  }
}

Status CudaBackend::Release(SetHandle handle) {
  CudaSetRef last;  // freed after the lock is gone: cudaFree waits for the device
  std::lock_guard<std::mutex> lock(sets_mutex_);
  const auto it = sets_.find(handle);
  if (it == sets_.end()) return UnknownSetError(handle);
  last = std::move(it->second);
  sets_.erase(it);
  return Status();
}

// Checks every job before any is started, and holds every set until the end.
Status CudaBackend::RebuildOn(Lane* lane, const std::vector<RebuildJob>& jobs) {
  SlotSizes sizes;
  {
    std::lock_guard<std::mutex> lock(sets_mutex_);
    for (const RebuildJob& job : jobs) {
      const auto it = sets_.find(job.set);
      if (it == sets_.end()) return UnknownSetError(job.set);
      lane->sets().push_back(it->second);
    }
    sizes = sizes_;
  }
  for (std::size_t j = 0; j < jobs.size(); ++j) RISKKV_RETURN(CheckJob(jobs[j], lane->sets()[j]->shape, j));
  RISKKV_RETURN(lane->Reserve(sizes));
  return lane->Run(jobs);
}

Status CudaBackend::Rebuild(const std::vector<RebuildJob>& jobs) {
  RISKKV_CUDA_RETURN(cudaSetDevice(kCudaDevice));
  std::unique_ptr<Lane> lane;
  Status status;
  try {
    RISKKV_RETURN(lanes_.Take(&lane));
    status = RebuildOn(lane.get(), jobs);
  } catch (const std::bad_alloc&) {
    status = OutOfHostMemory("a rebuild's plan");
  }
  if (lane == nullptr) return status;
  lane->sets().clear();
  lanes_.Return(std::move(lane));
  return status;
}

}  // namespace riskkv::kernels

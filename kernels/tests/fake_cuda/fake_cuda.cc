#include "kernels/tests/fake_cuda/fake_cuda.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "cublas_v2.h"
#include "cuda_runtime_api.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.cuh"

// What is enqueued waits here. One lock for the whole device: the fake is about order, not speed.
struct FakeStream {
  std::deque<std::pair<uint64_t, std::function<void()>>> work;  // guarded by device_mutex
  uint64_t enqueued = 0;                                        // guarded by device_mutex
};
struct FakeEvent {
  FakeStream* stream = nullptr;
  uint64_t after = 0;
};
struct FakeCublas {
  FakeStream* stream = nullptr;
  void* workspace = nullptr;
};

namespace riskkv::kernels::test {
namespace {

std::mutex device_mutex;
std::atomic<FakeDevice> device_state{FakeDevice::kSound};
std::atomic<int> fail_countdown{0};
std::atomic<bool> failed{false};
std::atomic<int> objects{0};

bool Fails() {
  if (fail_countdown.load() <= 0 || --fail_countdown != 0) return false;
  failed = true;
  return true;
}

void Enqueue(cudaStream_t stream, std::function<void()> work) {
  std::lock_guard<std::mutex> lock(device_mutex);
  stream->work.emplace_back(++stream->enqueued, std::move(work));
}

void RunUntil(FakeStream* stream, uint64_t last) {
  std::lock_guard<std::mutex> lock(device_mutex);
  while (!stream->work.empty() && stream->work.front().first <= last) {
    stream->work.front().second();
    stream->work.pop_front();
  }
}

cudaError_t Allocate(void** p, std::size_t bytes) {
  if (Fails()) return cudaErrorMemoryAllocation;
  *p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*p, 0x7f, bytes);  // fp16 NaN, and no zero: what is not written shows
  ++objects;
  return cudaSuccess;
}

cudaError_t Free(void* p) {
  std::free(p);
  --objects;
  return cudaSuccess;
}

void Trig(const Rotary& rope, int32_t position, std::vector<float>* cosine, std::vector<float>* sine) {
  for (int i = 0; i < rope.rotary_dim / 2; ++i) {
    const float angle = static_cast<float>(RopeAngle(position, rope.frequency[i]));
    cosine->push_back(std::cos(angle));
    sine->push_back(std::sin(angle));
  }
}

void Gather(const GatherArgs& args) {
  for (int token = 0; token < args.n_tokens; ++token) {
    std::vector<float> cosine, sine;
    Trig(args.rope, args.positions[token], &cosine, &sine);
    uint16_t* x = args.x + static_cast<std::size_t>(args.rows[token]) * args.d_in();
    for (int c = 0; c < args.d_in(); ++c) x[c] = GatherElement(args, token, c, cosine.data(), sine.data());
  }
}

void Finish(const FinishArgs& args) {
  for (int token = 0; token < args.n_tokens; ++token) {
    std::vector<float> cosine, sine;
    Trig(args.rope, args.positions[token], &cosine, &sine);
    for (int c = 0; c < args.d_out(); ++c) {
      const uint16_t value = FinishElement(args, token, c, cosine.data(), sine.data());
      args.targets[FinishIndex(args, token, c)] = value;
      const unsigned long long at = static_cast<unsigned long long>(token) * args.d_out() + c;
      if (!HalfIsFinite(value) && at < *args.first_bad) *args.first_bad = at;
    }
  }
}

void Widen(const void* from, cudaDataType type, std::size_t n, std::vector<float>* to) {
  to->resize(n);
  if (type == CUDA_R_16F) {
    HalfToFloat(static_cast<const uint16_t*>(from), to->data(), n);
  } else {
    std::memcpy(to->data(), from, n * sizeof(float));
  }
}

struct Product {
  bool transposed;
  int m, n, k;
  const void* a;
  int lda;
  const void* b;
  int ldb;
  cudaDataType type;  // of a and b
  float beta;
  float* c;
  int ldc;
  // a as column-major [m, k], lda m.
  std::vector<float> Plain() const {
    std::vector<float> wide, plain(static_cast<std::size_t>(k) * m);
    Widen(a, type, static_cast<std::size_t>(transposed ? m : k) * lda, &wide);
    for (int p = 0; p < k; ++p) {
      for (int i = 0; i < m; ++i) {
        plain[static_cast<std::size_t>(p) * m + i] =
            transposed ? wide[static_cast<std::size_t>(i) * lda + p] : wide[static_cast<std::size_t>(p) * lda + i];
      }
    }
    return plain;
  }
  void Run() const {
    const std::vector<float> plain = Plain();
    std::vector<float> x;
    Widen(b, type, static_cast<std::size_t>(n) * ldb, &x);
    for (int j = 0; j < n; ++j) {
      float* column = c + static_cast<std::size_t>(j) * ldc;
      // Not 0 * column: what was there may be no number.
      for (int i = 0; i < m; ++i) column[i] = beta == 0.0f ? 0.0f : beta * column[i];
      for (int p = 0; p < k; ++p) {
        const float* __restrict from = &plain[static_cast<std::size_t>(p) * m];
        const float factor = x[static_cast<std::size_t>(j) * ldb + p];
        for (int i = 0; i < m; ++i) column[i] += factor * from[i];
      }
    }
  }
};

}  // namespace

bool FakeLaunch(FakeStream* stream, std::function<void()> work) {
  if (Fails()) return false;
  Enqueue(stream, std::move(work));
  return true;
}

Status CreateFakeCudaBackend(std::unique_ptr<Backend>* backend) { return CudaBackend::Create(backend); }
void SetFakeDevice(FakeDevice device) { device_state = device; }
void FailFakeCall(int call) {
  failed = false;
  fail_countdown = call;
}
bool FakeCallFailed() { return failed; }
int FakeObjects() { return objects; }

}  // namespace riskkv::kernels::test

namespace riskkv::kernels {

cudaError_t LaunchGather(const GatherArgs& args, cudaStream_t stream) {
  if (test::Fails()) return cudaErrorLaunchFailure;
  test::Enqueue(stream, [args] { test::Gather(args); });
  return cudaSuccess;
}

cudaError_t LaunchFinish(const FinishArgs& args, cudaStream_t stream) {
  if (test::Fails()) return cudaErrorLaunchFailure;
  test::Enqueue(stream, [args] { test::Finish(args); });
  return cudaSuccess;
}

cudaError_t ProbeKernels() {
  return test::device_state == test::FakeDevice::kNoCode ? cudaErrorNoKernelImageForDevice : cudaSuccess;
}

}  // namespace riskkv::kernels

namespace fake = riskkv::kernels::test;

const char* cudaGetErrorName(cudaError_t error) { return error == cudaErrorMemoryAllocation ? "no memory" : "failure"; }
const char* cudaGetErrorString(cudaError_t) { return "of the fake device"; }

cudaError_t cudaGetDeviceCount(int* count) {
  if (fake::device_state == fake::FakeDevice::kNoDriver) return cudaErrorInsufficientDriver;
  *count = fake::device_state == fake::FakeDevice::kNone ? 0 : 1;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int) { return fake::Fails() ? cudaErrorLaunchFailure : cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"fake GPU", std::size_t{1} << 30, 9, 0};
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaMalloc(void** p, std::size_t bytes) { return fake::Allocate(p, bytes); }
cudaError_t cudaFree(void* p) { return fake::Free(p); }
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) { return fake::Allocate(p, bytes); }
cudaError_t cudaFreeHost(void* p) { return fake::Free(p); }

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (fake::Fails()) return cudaErrorLaunchFailure;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (fake::Fails()) return cudaErrorLaunchFailure;
  fake::Enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (fake::Fails()) return cudaErrorLaunchFailure;
  fake::Enqueue(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (fake::Fails()) return cudaErrorMemoryAllocation;
  *stream = new FakeStream;
  ++fake::objects;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  fake::RunUntil(stream, ~uint64_t{0});
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  --fake::objects;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (fake::Fails()) return cudaErrorMemoryAllocation;
  *event = new FakeEvent;
  ++fake::objects;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (fake::Fails()) return cudaErrorLaunchFailure;
  std::lock_guard<std::mutex> lock(fake::device_mutex);
  *event = {stream, stream->enqueued};
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (fake::Fails()) return cudaErrorLaunchFailure;
  if (event->stream != nullptr) fake::RunUntil(event->stream, event->after);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  --fake::objects;
  return cudaSuccess;
}

const char* cublasGetStatusName(cublasStatus_t) { return "a status of the fake cuBLAS"; }

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (fake::Fails()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new FakeCublas;
  ++fake::objects;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  --fake::objects;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  *handle = {stream, nullptr};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t) {
  handle->workspace = workspace;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType type_a, int lda, const void* b,
                            cudaDataType type_b, int ldb, const void* beta, void* c, cudaDataType type_c, int ldc,
                            cublasComputeType_t, cublasGemmAlgo_t) {
  if (fake::Fails()) return CUBLAS_STATUS_EXECUTION_FAILED;
  const bool transposed = op_a == CUBLAS_OP_T;
  const bool types = type_a == type_b && type_c == CUDA_R_32F && op_b == CUBLAS_OP_N;
  const bool sizes = lda >= (transposed ? k : m) && ldb >= k && ldc >= m;
  if (handle->workspace == nullptr || !types || !sizes || *static_cast<const float*>(alpha) != 1.0f)
    return CUBLAS_STATUS_INVALID_VALUE;
  const fake::Product product{transposed, m,      n, k, a, lda, b, ldb, type_a, *static_cast<const float*>(beta),
                              static_cast<float*>(c), ldc};
  fake::Enqueue(handle->stream, [product] { product.Run(); });
  return CUBLAS_STATUS_SUCCESS;
}

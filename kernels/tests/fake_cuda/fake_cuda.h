// A GPU played by the CPU, so that the CUDA backend's host code runs under the tests and the sanitizers everywhere. It
// is as late as a device may be: nothing enqueued on a stream happens before someone waits for it, so a buffer reused
// or freed too early gives wrong bytes or a sanitizer's report. The kernels are loops over elements.h.
#ifndef RISKKV_KERNELS_TESTS_FAKE_CUDA_FAKE_CUDA_H_
#define RISKKV_KERNELS_TESTS_FAKE_CUDA_FAKE_CUDA_H_

#include <functional>
#include <memory>

#include "kernels/backend.h"

struct FakeStream;

namespace riskkv::kernels::test {

// A launch, for the files that play kernels: false when it is the call that fails, else the work is enqueued.
bool FakeLaunch(FakeStream* stream, std::function<void()> work);

// The CUDA backend on the fake device.
Status CreateFakeCudaBackend(std::unique_ptr<Backend>* backend);

// What cudaGetDeviceCount and the kernel probe find.
enum class FakeDevice { kSound, kNoDriver, kNone, kNoCode };
void SetFakeDevice(FakeDevice device);

// The call-th call from now that can fail does, once; 0 switches it off. Launches and products fail with an execution
// error, allocations for lack of memory.
void FailFakeCall(int call);

// Whether a call has failed since FailFakeCall.
bool FakeCallFailed();

// Live allocations, streams, events and handles.
int FakeObjects();

}  // namespace riskkv::kernels::test

#endif  // RISKKV_KERNELS_TESTS_FAKE_CUDA_FAKE_CUDA_H_

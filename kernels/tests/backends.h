// The same tests on every backend: RISKKV_BACKEND_TEST(name) { ... use `backend` } becomes name_cpu, name_fake (the CUDA
// backend's host code on the fake device) and name_cuda, which is skipped, with the reason, where no device answers.
#ifndef RISKKV_KERNELS_TESTS_BACKENDS_H_
#define RISKKV_KERNELS_TESTS_BACKENDS_H_

#include <memory>

#include "kernels/backend.h"
#include "kernels/tests/check.h"
#include "kernels/tests/fake_cuda/fake_cuda.h"

namespace riskkv::kernels::test {

inline std::unique_ptr<Backend> MakeCpu(int threads = 1) {
  std::unique_ptr<Backend> backend;
  const Status status = CreateBackend(BackendChoice::kCpu, threads, &backend);
  if (!status.ok()) throw Failure(status.message());
  return backend;
}

inline std::unique_ptr<Backend> MakeCuda() {
  std::unique_ptr<Backend> backend;
  const Status status = CreateBackend(BackendChoice::kCuda, 1, &backend);
  if (!status.ok()) throw Skipped(status.message());
  return backend;
}

inline std::unique_ptr<Backend> MakeFakeCuda() {
  std::unique_ptr<Backend> backend;
  const Status status = CreateFakeCudaBackend(&backend);
  if (!status.ok()) throw Failure(status.message());
  return backend;
}

// Largest distance from the oracle beyond the rounding of the result, for results of about one. The CPU multiplies in
// fp32; CUDA rounds X and B to fp16 first: a deviation of 2.8e-4 an element, the two together 4e-4 of the result, and
// five times that for the worst of a hundred thousand.
inline double Tolerance(const Backend& backend) { return backend.info().backend == "cuda" ? 3e-3 : 1e-5; }

#define RISKKV_BACKEND_TEST(name)                                                                      \
  static void name(::riskkv::kernels::Backend& backend);                                               \
  RISKKV_TEST(name##_cpu) { name(*::riskkv::kernels::test::MakeCpu()); }                               \
  RISKKV_TEST(name##_fake) { name(*::riskkv::kernels::test::MakeFakeCuda()); }                         \
  RISKKV_TEST(name##_cuda) { name(*::riskkv::kernels::test::MakeCuda()); }                             \
  static void name([[maybe_unused]] ::riskkv::kernels::Backend& backend)

}  // namespace riskkv::kernels::test

#endif  // RISKKV_KERNELS_TESTS_BACKENDS_H_

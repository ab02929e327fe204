// The thread contract and the promise not to allocate once warm.
#include <atomic>
#include <thread>
#include <utility>

#include "kernels/tests/alloc_counter.h"
#include "kernels/tests/backends.h"
#include "kernels/tests/problem.h"

namespace riskkv::kernels::test {
namespace {

RISKKV_BACKEND_TEST(threads_concurrent_rebuilds_give_the_bytes_of_one) {
  TestSet set(2, 32, Rope(RopePairing::kHalves, 32), WeightType::kF16, 51);
  set.AddPaperGroups(3);
  SetHandle handle = 0;
  CHECK_OK(backend.Upload(set.view, &handle));
  std::vector<TestRows> want;
  for (int g = 0; g < 3; ++g) {
    want.emplace_back(set, g, Positions(60 * g, 200), 52 + g);
    CHECK_OK(backend.Rebuild({want[g].Job(handle)}));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, g = i % 3] {
      TestRows rows = want[g];
      for (int round = 0; round < 20; ++round) {
        rows.Scrub();
        const bool ok = backend.Rebuild({rows.Job(handle)}).ok();
        if (!ok || rows.target_k != want[g].target_k || rows.target_v != want[g].target_v) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

// Release takes the handle at once; a Rebuild that already holds the set ends with the right bytes.
RISKKV_BACKEND_TEST(threads_release_during_use) {
  TestSet set(1, 32, Rope(RopePairing::kNeighbours, 32), WeightType::kF32, 53);
  set.AddPaperGroups(1);
  SetHandle first = 0;
  CHECK_OK(backend.Upload(set.view, &first));
  TestRows want(set, 0, Positions(3, 400), 54);
  CHECK_OK(backend.Rebuild({want.Job(first)}));
  std::atomic<SetHandle> current{first};
  std::atomic<int> wrong{0}, done{0}, missed{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      TestRows rows = want;
      while (!stop) {
        rows.Scrub();
        const Status status = backend.Rebuild({rows.Job(current)});
        if (status.code() == Code::kNotFound) {
          ++missed;
        } else if (!status.ok() || rows.target_k != want.target_k || rows.target_v != want.target_v) {
          ++wrong;
        }
        ++done;
      }
    });
  }
  for (int i = 0; i < 60; ++i) {
    SetHandle next = 0;
    CHECK_OK(backend.Upload(set.view, &next));
    const SetHandle old = current.exchange(next);
    CHECK_OK(backend.Release(old));
    std::this_thread::yield();
  }
  while (done < 30) std::this_thread::yield();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  Note(Text(done.load(), " rebuilds, ", missed.load(), " met a released handle"));
  CHECK_EQ(wrong.load(), 0);
}

void CheckNoAllocation(Backend& backend) {
  TestSet set(2, 64, Rope(RopePairing::kHalves, 64), WeightType::kF16, 55);
  set.AddPaperGroups(2);
  SetHandle handle = 0;
  CHECK_OK(backend.Upload(set.view, &handle));
  TestRows a(set, 0, Positions(0, 700), 56), b(set, 1, Positions(0, 700), 57);
  const std::vector<RebuildJob> jobs = {a.Job(handle), b.Job(handle)};
  CHECK_OK(backend.Rebuild(jobs));
  const long before = AllocationCount();
  for (int round = 0; round < 5; ++round) CHECK_OK(backend.Rebuild(jobs));
  CHECK_EQ(AllocationCount() - before, 0);
}

// Of the CPU alone: what the CUDA libraries do inside a launch is theirs. cuda_test.cc counts device memory.
RISKKV_TEST(threads_no_allocation_once_warm) { CheckNoAllocation(*MakeCpu()); }

RISKKV_TEST(threads_no_allocation_once_warm_with_workers) { CheckNoAllocation(*MakeCpu(3)); }

}  // namespace
}  // namespace riskkv::kernels::test

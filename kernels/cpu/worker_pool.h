// A fixed number of threads that share out the items of one call at a time.
#ifndef RISKKV_KERNELS_CPU_WORKER_POOL_H_
#define RISKKV_KERNELS_CPU_WORKER_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace riskkv::kernels {

// Thread contract: Run must not be called by two threads at once. Nothing allocates after construction. The workers
// sleep between calls: they do not spin beside a decode loop.
class WorkerPool {
 public:
  // task(context, worker, item), 0 <= worker < threads().
  using Task = void (*)(void* context, int worker, std::size_t item);

  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls the task once for every item in [0, count); the caller is worker 0. Returns when all are done.
  void Run(std::size_t count, Task task, void* context);

 private:
  void WorkerLoop(int worker);
  void TakeItems(int worker);
  void Stop();

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  uint64_t generation_ = 0;  // guarded by mutex_
  int running_ = 0;          // guarded by mutex_
  bool stop_ = false;        // guarded by mutex_
  std::size_t count_ = 0;    // these three: written under mutex_ before a generation starts
  Task task_ = nullptr;
  void* context_ = nullptr;
  std::atomic<std::size_t> next_{0};
  std::vector<std::thread> workers_;
};

}  // namespace riskkv::kernels

#endif  // RISKKV_KERNELS_CPU_WORKER_POOL_H_

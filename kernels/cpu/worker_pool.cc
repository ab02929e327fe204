#include "kernels/cpu/worker_pool.h"

namespace riskkv::kernels {

WorkerPool::WorkerPool(int threads) {
  try {
    for (int worker = 1; worker < threads; ++worker) {
      workers_.emplace_back([this, worker] { WorkerLoop(worker); });
    }
  } catch (...) {
    Stop();  // the threads that did start must not outlive this object
    throw;
  }
}

WorkerPool::~WorkerPool() { Stop(); }

void WorkerPool::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void WorkerPool::Run(std::size_t count, Task task, void* context) {
  if (workers_.empty() || count <= 1) {
    for (std::size_t item = 0; item < count; ++item) task(context, 0, item);
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    count_ = count;
    task_ = task;
    context_ = context;
    next_.store(0, std::memory_order_relaxed);
    running_ = static_cast<int>(workers_.size());
    ++generation_;
  }
  start_.notify_all();
  TakeItems(0);
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
}

void WorkerPool::TakeItems(int worker) {
  for (;;) {
    const std::size_t item = next_.fetch_add(1, std::memory_order_relaxed);
    if (item >= count_) return;
    task_(context_, worker, item);
  }
}

void WorkerPool::WorkerLoop(int worker) {
  uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      start_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
    }
    TakeItems(worker);
    std::lock_guard<std::mutex> lock(mutex_);
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace riskkv::kernels

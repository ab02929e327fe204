// The one thread that calls the engine. Between two turns it runs what other threads posted.
#ifndef RISKKV_SERVICES_WORKER_CORE_DECODE_LOOP_H_
#define RISKKV_SERVICES_WORKER_CORE_DECODE_LOOP_H_

#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace riskkv::worker {

// Thread-safe. A turn and posted calls never run at the same time. Calls run in the order they came; between two turns at
// least one of them and, after kCallBudget, no further one, so that a flood of exports does not stop the decoding.
class DecodeLoop {
 public:
  static constexpr absl::Duration kCallBudget = absl::Milliseconds(10);
  static constexpr absl::Duration kIdleWait = absl::Milliseconds(20);

  // `turn` does one turn of work and says whether there is more to do at once; otherwise the loop waits for Wake, a call, or
  // kIdleWait.
  explicit DecodeLoop(std::function<bool()> turn) : turn_(std::move(turn)) {}
  // Stops, and waits for callers that are still inside Run.
  ~DecodeLoop();
  void Start();
  // Idempotent. Calls that have not run end with UNAVAILABLE (NOT_READY).
  void Stop();
  void Wake();

  // Runs `call` on the loop's thread and waits for it. On that thread: at once.
  absl::Status Run(std::function<void()> call);
  // The same for calls with a result (absl::Status or absl::StatusOr<T>).
  template <typename F, typename R = std::invoke_result_t<F>>
  R Call(F f) {
    std::optional<R> result;
    RETURN_IF_ERROR(Run([&] { result.emplace(f()); }));
    return *std::move(result);
  }

 private:
  struct Pending {
    std::function<void()> call;
    bool done = false;
    bool refused = false;
  };

  void Loop();
  void RunPending() ABSL_LOCKS_EXCLUDED(mu_);
  void Refuse() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::function<bool()> turn_;
  Mutex mu_;
  CondVar wake_;  // the loop waits on it
  CondVar done_;  // callers wait on it
  std::deque<Pending*> pending_ ABSL_GUARDED_BY(mu_);
  int callers_ ABSL_GUARDED_BY(mu_) = 0;
  bool woken_ ABSL_GUARDED_BY(mu_) = false;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::thread::id loop_id_ ABSL_GUARDED_BY(mu_);
  Mutex join_mu_;
  std::thread thread_ ABSL_GUARDED_BY(join_mu_);
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_DECODE_LOOP_H_

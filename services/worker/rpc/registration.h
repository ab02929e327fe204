// Keeps a worker known to its coordinator: registers, renews the lease, and begins again after every break.
#ifndef RISKKV_SERVICES_WORKER_RPC_REGISTRATION_H_
#define RISKKV_SERVICES_WORKER_RPC_REGISTRATION_H_

#include <atomic>
#include <memory>
#include <thread>

#include "common/base/mutex.h"
#include "common/obs/log.h"
#include "grpcpp/grpcpp.h"
#include "services/worker/rpc/coordinator_client.h"
#include "services/worker/rpc/describe.h"

namespace riskkv::worker {

// A thread of its own; a coordinator that is away never stops generation. The pointers must outlive it.
class Registration {
 public:
  Registration(CoordinatorClient* coordinator, const Describer* describer, Logger log);
  ~Registration();  // Stop()

  void Start();
  // Waits for the thread. The lease runs out by itself. Idempotent.
  void Stop();
  bool registered() const { return registered_; }
  // Renews now: the load or the sets changed.
  void Nudge();

 private:
  void Run();
  // One registration and its renewals; returns why it ended.
  absl::Status Session();
  v1::LeaseRenewal Renewal() const;
  // False when stopping.
  bool Sleep(absl::Duration duration);

  CoordinatorClient* const coordinator_;
  const Describer* const describer_;
  const Logger log_;
  std::atomic<bool> registered_{false};
  Cancellation cancel_;
  Mutex mu_;
  CondVar wake_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool nudged_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_RPC_REGISTRATION_H_

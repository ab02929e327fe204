// A client's cancel, wherever its request is: ends it here, and sees to it that whoever else has to know is told, however long that takes.
#ifndef RISKKV_SERVICES_WORKER_CORE_CANCEL_RELAY_H_
#define RISKKV_SERVICES_WORKER_CORE_CANCEL_RELAY_H_

#include <map>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/obs/log.h"
#include "services/worker/core/move_peers.h"
#include "services/worker/core/request_manager.h"

namespace riskkv::worker {

// The outside world of a cancel. Called on the relay's thread; calls end soon after `cancel` is.
class CancelPeers {
 public:
  virtual ~CancelPeers() = default;
  // Sets the flag in the owner record, which makes an open attempt fail (protocol.md, 3).
  virtual absl::Status TellCoordinator(const std::string& request_id, Cancellation* cancel) = 0;
  // A client's Cancel at the worker the request moved to, by the address clients know. NOT_FOUND: it has ended there.
  virtual absl::Status TellOwner(const std::string& address, const std::string& request_id, Cancellation* cancel) = 0;
};

struct CancelRelayOptions {
  absl::Duration first_retry = absl::Milliseconds(20);
  absl::Duration last_retry = absl::Seconds(2);    // doubled up to this
  absl::Duration give_up = absl::Minutes(10);      // as long as a moved request is remembered
  std::size_t max_pending = 10000;                 // the oldest are forgotten; their clients' going ends them after the grace
};

// Thread-safe. A thread of its own makes the calls.
class CancelRelay {
 public:
  // All pointers outlive it. `peers` may be null: nobody else is told.
  CancelRelay(CancelRelayOptions options, RequestManager* manager, CancelPeers* peers, const Clock* clock, Logger log);
  ~CancelRelay();

  // As RequestManager::Cancel, and never waits for anybody: the request's stream ends at once, the work when its owner can be reached.
  absl::StatusOr<bool> Cancel(const std::string& id);
  // Cancels that somebody still has to be told of.
  int pending() const;

 private:
  struct Errand {
    bool coordinator_told = false;
    absl::Duration since, due, delay;
  };
  void Run();
  // True: nothing is left to do.
  bool Step(const std::string& id, Errand& errand);

  const CancelRelayOptions options_;
  RequestManager* const manager_;
  CancelPeers* const peers_;
  const Clock* const clock_;
  const Logger log_;
  Cancellation cancel_;
  mutable Mutex mu_;
  CondVar wake_;
  std::map<std::string, Errand> errands_ ABSL_GUARDED_BY(mu_);
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_CANCEL_RELAY_H_

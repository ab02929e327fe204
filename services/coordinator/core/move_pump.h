// Reads a StartMove stream on a thread of its own, so that the job's thread can also watch leases, deadline and decision.
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_MOVE_PUMP_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_MOVE_PUMP_H_

#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "common/base/mutex.h"
#include "services/coordinator/core/job.h"
#include "services/coordinator/core/worker_api.h"

namespace riskkv::coordinator {

// Thread-safe; wakes `job` at each event and at the end.
class MovePump {
 public:
  MovePump(std::unique_ptr<MoveStream> stream, Job* job);
  ~MovePump();  // ends the call

  // Null: nothing came since.
  std::unique_ptr<MoveEvent> Pop();
  // How the stream ended; nullopt while it runs or has events that were not popped.
  std::optional<absl::Status> Ended();

 private:
  void Loop();

  const std::unique_ptr<MoveStream> stream_;
  Job* const job_;
  Mutex mu_;
  std::deque<std::unique_ptr<MoveEvent>> events_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_MOVE_PUMP_H_

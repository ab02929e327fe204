// What the processes of a cluster find each other through.
#ifndef RISKKV_TESTS_FAULTS_WORLD_H_
#define RISKKV_TESTS_FAULTS_WORLD_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/obs/log.h"
#include "services/worker/core/request_manager.h"
#include "tests/faults/network.h"
#include "tests/faults/trace.h"

namespace riskkv::faults {

struct WorkerNode;
struct CoordinatorNode;
using WorkerPtr = std::shared_ptr<WorkerNode>;
using CoordinatorPtr = std::shared_ptr<CoordinatorNode>;

// Times, shortened: a cell runs in tens of milliseconds.
struct Times {
  absl::Duration lease = absl::Milliseconds(150);
  absl::Duration heartbeat = absl::Milliseconds(8);
  absl::Duration call = absl::Milliseconds(100);      // timeout of a control call
  absl::Duration deadline = absl::Milliseconds(1200);  // of a job
  absl::Duration step = absl::Microseconds(500);
};

// Thread-safe.
class World {
 public:
  virtual ~World() = default;
  // Whoever runs there now; null: nobody.
  virtual WorkerPtr Worker(const std::string& address) = 0;
  virtual CoordinatorPtr Coordinator() = 0;
  // What a client that recovers a request hands over, by a name that the coordinator passes on.
  std::string Hand(worker::IncomingRequest request) {
    MutexLock lock(handed_mu_);
    handed_[++last_handed_] = std::move(request);
    handed_.erase(last_handed_ - 8);  // asked for at once, or never
    return std::to_string(last_handed_);
  }
  worker::IncomingRequest Handed(const std::string& name) {
    MutexLock lock(handed_mu_);
    return handed_[std::stoll(name)];
  }

  Network network;
  Trace trace;
  RealClock clock;
  Logger log = NullLogger();
  Times times;

 private:
  Mutex handed_mu_;
  int64_t last_handed_ ABSL_GUARDED_BY(handed_mu_) = 0;
  std::map<int64_t, worker::IncomingRequest> handed_ ABSL_GUARDED_BY(handed_mu_);
};

}  // namespace riskkv::faults

#endif  // RISKKV_TESTS_FAULTS_WORLD_H_

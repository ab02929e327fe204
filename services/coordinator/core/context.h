// What the parts of the coordinator share. Everything outlives them.
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_CONTEXT_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_CONTEXT_H_

#include <atomic>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/cost/corrections.h"
#include "common/cost/links.h"
#include "common/obs/log.h"
#include "common/store/store.h"
#include "services/coordinator/core/decisions.h"
#include "services/coordinator/core/notifier.h"
#include "services/coordinator/core/planner.h"
#include "services/coordinator/core/worker_api.h"
#include "services/coordinator/core/worker_registry.h"

namespace riskkv::coordinator {

struct ManagerOptions {
  int max_jobs = 16;                                // running at once; others wait, which counts against their deadline
  int max_queued = 1024;                            // QUEUE_FULL beyond
  absl::Duration default_deadline = absl::Seconds(30);
  absl::Duration default_pause = absl::Milliseconds(200);
  absl::Duration retention = absl::Minutes(10);     // of terminal records
  int64_t retained = 10000;
  absl::Duration prune_every = absl::Seconds(30);
  absl::Duration tick = absl::Milliseconds(20);     // how often a running job looks at leases and its deadline
  absl::Duration query_every = absl::Milliseconds(500);  // asking a source whose stream broke
  absl::Duration nudge_every = absl::Seconds(1);         // telling a destination that does not resume
  absl::Duration call_timeout = absl::Seconds(5);   // of a control call
  absl::Duration adopt_timeout = absl::Seconds(60);  // of an Adopt, which replays prompt and tokens before it answers
  absl::Duration set_timeout = absl::Seconds(60);   // of a placement of a set, at most the job's time left
  absl::Duration stats_wait = absl::Seconds(1);     // after RESUMED, for the source's numbers
  absl::Duration store_retry = absl::Milliseconds(100);
  NotifierOptions notifier;
};

struct CoreContext {
  ManagerOptions options;
  Store* store = nullptr;
  const Clock* clock = nullptr;
  WorkerRegistry* registry = nullptr;
  cost::LinkTable* links = nullptr;
  cost::Corrections* corrections = nullptr;
  WorkerApi* api = nullptr;
  const Planner* planner = nullptr;
  const Decisions* decisions = nullptr;
  Notifier* notifier = nullptr;
  Logger log;
  const std::atomic<bool>* stopping = nullptr;  // the process ends: leave jobs as they are in the store

  bool Stopping() const { return stopping != nullptr && stopping->load(); }
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_CONTEXT_H_

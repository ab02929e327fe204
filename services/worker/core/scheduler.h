// Which tokens of which requests go into one step.
#ifndef RISKKV_SERVICES_WORKER_CORE_SCHEDULER_H_
#define RISKKV_SERVICES_WORKER_CORE_SCHEDULER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/engine/engine.h"
#include "services/worker/core/request_record.h"

namespace riskkv::worker {

struct BatchEntry {
  RecordPtr record;
  int64_t tokens = 0;    // fed from record->n_kv on
  bool sample = false;   // they reach the end of the history
};
using Batch = std::vector<BatchEntry>;

// One token for each request that decodes, then prompt tokens, `prefill_chunk` of them at most in all, for the oldest requests
// that lack cells. Depends on nothing but the requests and their order: the same requests give the same batches.
// More requests than max_batch wait for the next step in turn: `rotation` says how many steps were made.
Batch ComposeBatch(const std::vector<RecordPtr>& running, int max_batch, int prefill_chunk, int64_t rotation);

// The engine's view of a batch; valid while nothing is appended to the histories.
std::vector<StepItem> ToItems(std::span<const BatchEntry> batch);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_SCHEDULER_H_

// Cells and slots that are spoken for: the engine has no reservation call, so they are counted here.
#ifndef RISKKV_SERVICES_WORKER_CORE_REQUEST_LEDGER_H_
#define RISKKV_SERVICES_WORKER_CORE_REQUEST_LEDGER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::worker {

// A holding of cells and at most one slot; freed exactly once, because freeing empties it.
struct Holding {
  int64_t cells = 0;
  bool slot = false;
};

// Not thread-safe: the manager guards it.
class CellLedger {
 public:
  CellLedger(int64_t cells, int slots) : cells_total_(cells), slots_total_(slots) {}

  // RESOURCE_EXHAUSTED (NO_SLOT, NO_BLOCKS) naming free and wanted.
  absl::Status Take(int64_t cells, Holding& holding) {
    if (slots_used_ >= slots_total_) {
      return MakeError(absl::StatusCode::kResourceExhausted, "NO_SLOT",
                       fmt::format("1 sequence wanted, 0 of {} free", slots_total_));
    }
    RETURN_IF_ERROR(Grow(cells, holding));
    holding.slot = true;
    ++slots_used_;
    ++changes_;
    return absl::OkStatus();
  }
  // Raises a holding to `cells`; a larger one stays as it is.
  absl::Status Grow(int64_t cells, Holding& holding) {
    const int64_t more = cells - holding.cells;
    if (more <= 0) return absl::OkStatus();
    const int64_t free = cells_total_ - cells_used_;
    if (more > free) {
      return MakeError(absl::StatusCode::kResourceExhausted, "NO_BLOCKS",
                       fmt::format("{} KV cells wanted, {} of {} free", more, free, cells_total_));
    }
    cells_used_ += more;
    ++changes_;
    holding.cells = cells;
    return absl::OkStatus();
  }
  void Free(Holding& holding) {
    cells_used_ -= holding.cells;
    slots_used_ -= holding.slot ? 1 : 0;
    ++changes_;
    holding = {};
  }

  int64_t cells_total() const { return cells_total_; }
  int64_t cells_used() const { return cells_used_; }
  int slots_total() const { return slots_total_; }
  int slots_used() const { return slots_used_; }
  // Grows with everything that is taken or given back.
  int64_t changes() const { return changes_; }

 private:
  const int64_t cells_total_;
  const int slots_total_;
  int64_t cells_used_ = 0;
  int slots_used_ = 0;
  int64_t changes_ = 0;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_REQUEST_LEDGER_H_

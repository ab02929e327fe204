#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "fmt/format.h"
#include "services/worker/core/request_manager_impl.h"

namespace riskkv::worker {
namespace {

absl::Status CheckOptions(const ManagerOptions& o) {
  if (o.max_queue < 1 || o.max_running < 0 || o.prefill_chunk < 1 || o.prefill_chunk_moving < 1) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
                     fmt::format("max_queue {}, max_running {}, prefill_chunk {}, prefill_chunk_moving {}: must be positive "
                                 "(max_running 0: the engine's sequences)",
                                 o.max_queue, o.max_running, o.prefill_chunk, o.prefill_chunk_moving));
  }
  return absl::OkStatus();
}

int SlotsOf(const ManagerOptions& options, const EngineLimits& limits) {
  return options.max_running == 0 ? limits.n_sequences : std::min(options.max_running, limits.n_sequences);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RequestManager>> RequestManager::Create(ManagerOptions options, std::unique_ptr<Engine> engine,
                                                                       const Clock* clock) {
  RETURN_IF_ERROR(CheckOptions(options));
  const EngineLimits limits = engine->limits();
  const int slots = SlotsOf(options, limits);
  auto state = std::make_shared<ManagerState>(std::move(options), clock, limits.n_cells, slots);
  if (state->options.warm_up_context > 0) {
    MutexLock lock(state->mu);
    const int chunk = std::min(state->options.prefill_chunk_moving, limits.max_batch);
    RETURN_IF_ERROR(WarmUp(*engine, *clock, state->options.warm_up_context, chunk, state->costs));
  }
  auto manager = std::make_unique<RequestManagerImpl>(std::move(state), std::move(engine));
  manager->Start();
  return manager;
}

RequestManagerImpl::RequestManagerImpl(std::shared_ptr<ManagerState> state, std::unique_ptr<Engine> engine)
    : s_(std::move(state)),
      engine_(std::move(engine)),
      runner_(s_.get(), engine_.get()),
      loop_([this] { return runner_.Turn(); }) {}

void RequestManagerImpl::Stop() {
  {
    MutexLock lock(s_->mu);
    if (std::exchange(s_->stopping, true)) return;
  }
  engine_->Interrupt();
  loop_.Stop();
  MutexLock lock(s_->mu);
  const absl::Status stopping = MakeError(absl::StatusCode::kUnavailable, "NOT_READY", "the worker is stopping");
  std::vector<RecordPtr> open;
  for (const auto& [id, r] : s_->records) {
    if (!r->finished() && r->state != RequestState::kMoved) open.push_back(r);
    r->changed.NotifyAll();
  }
  for (const RecordPtr& r : open) runner_.Finish(r, FinishReason::kError, stopping);
}

ManagerLoad RequestManagerImpl::Load() const {
  MutexLock lock(s_->mu);
  ManagerLoad load;
  load.cells_total = s_->ledger.cells_total();
  load.cells_used = s_->ledger.cells_used();
  load.slots_total = s_->ledger.slots_total();
  load.slots_used = s_->ledger.slots_used();
  load.queued = static_cast<int>(s_->queue.size());
  load.running = static_cast<int>(s_->running.size());
  load.busy = s_->costs.busy();
  load.prefill_p1 = s_->costs.prefill_p1();
  load.prefill_p2 = s_->costs.prefill_p2();
  load.decode_s = s_->costs.decode_s();
  load.decode_s_per_token = s_->costs.decode_s_per_token();
  load.append_s = s_->costs.append_s();
  load.export_s = s_->costs.export_s();
  load.no_step = s_->clock->Monotonic() - s_->loop_ok;
  load.no_room = s_->clock->Monotonic() - s_->pool_ok;
  return load;
}

}  // namespace riskkv::worker

#include "services/worker/core/cancel_relay.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace riskkv::worker {
namespace {

constexpr auto kLookForDue = std::chrono::milliseconds(10);

// Who else must know of it: nobody, of a request that ends here by itself.
bool ConcernsOthers(const RequestSnapshot& s) { return s.state == RequestState::kPaused || s.state == RequestState::kMoved; }

}  // namespace

CancelRelay::CancelRelay(CancelRelayOptions options, RequestManager* manager, CancelPeers* peers, const Clock* clock, Logger log)
    : options_(options), manager_(manager), peers_(peers), clock_(clock), log_(std::move(log)) {
  thread_ = std::thread([this] { Run(); });
}

CancelRelay::~CancelRelay() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    wake_.NotifyAll();
  }
  cancel_.Cancel();
  thread_.join();
}

absl::StatusOr<bool> CancelRelay::Cancel(const std::string& id) {
  ASSIGN_OR_RETURN(const bool running, manager_->Cancel(id));
  if (!running || peers_ == nullptr) return running;
  const absl::Duration now = clock_->Monotonic();
  MutexLock lock(mu_);
  // A request that decodes here ends within a step, unless a move pauses it first: that is seen when the errand is due.
  if (errands_.size() >= options_.max_pending) {
    errands_.erase(std::min_element(errands_.begin(), errands_.end(),
                                    [](const auto& a, const auto& b) { return a.second.since < b.second.since; }));
  }
  errands_.emplace(id, Errand{false, now, now, options_.first_retry});
  wake_.NotifyAll();
  return running;
}

int CancelRelay::pending() const {
  MutexLock lock(mu_);
  return static_cast<int>(errands_.size());
}

void CancelRelay::Run() {
  for (;;) {
    std::map<std::string, Errand> due;
    {
      MutexLock lock(mu_);
      if (stop_) return;
      const absl::Duration now = clock_->Monotonic();
      for (const auto& [id, errand] : errands_) {
        if (errand.due <= now) due.emplace(id, errand);
      }
      if (due.empty()) {
        if (errands_.empty()) {
          wake_.Wait(mu_);
        } else {
          wake_.WaitFor(mu_, kLookForDue);
        }
        continue;
      }
    }
    for (auto& [id, errand] : due) {
      const bool done = Step(id, errand);
      errand.due = clock_->Monotonic() + errand.delay;
      errand.delay = std::min(errand.delay * 2, options_.last_retry);
      MutexLock lock(mu_);
      if (stop_) return;
      auto it = errands_.find(id);
      if (it == errands_.end()) continue;
      if (done || errand.due - errand.since > options_.give_up) {
        errands_.erase(it);
      } else {
        it->second = errand;
      }
    }
  }
}

bool CancelRelay::Step(const std::string& id, Errand& errand) {
  const absl::StatusOr<RequestSnapshot> s = manager_->Look(id);
  if (!s.ok() || s->state == RequestState::kFinished) return true;
  if (!ConcernsOthers(*s)) return false;  // it ends at the next step; until then a pause may come between
  // First, so that no later attempt commits either.
  if (!errand.coordinator_told) {
    const absl::Status told = peers_->TellCoordinator(id, &cancel_);
    errand.coordinator_told = told.ok();
    if (!told.ok()) log_->debug("req={} cancelled, but the coordinator cannot be told: {}", id, told);
  }
  if (s->state != RequestState::kMoved) return false;  // the decision says who ends it
  const absl::Status told = peers_->TellOwner(s->moved_to.address, id, &cancel_);
  if (!told.ok() && !absl::IsNotFound(told)) {
    log_->debug("req={} cancelled, but {} cannot be told: {}", id, s->moved_to.worker_id, told);
    return false;
  }
  log_->info("req={} was cancelled here after it had moved to {}: told", id, s->moved_to.worker_id);
  return true;
}

}  // namespace riskkv::worker

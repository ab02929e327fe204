#include "services/worker/core/readiness.h"

#include <optional>
#include <utility>

#include "fmt/format.h"

namespace riskkv::worker {

std::string Readiness::WhyNot() const {
  const ManagerLoad load = manager_.Load();
  if (load.no_step >= options_.stuck_after) {
    return fmt::format("the decode loop has made no step for {}: {} requests run", absl::FormatDuration(load.no_step), load.running);
  }
  if (load.no_room >= options_.stuck_after) {
    return fmt::format("{} requests have waited for {}, none runs, and nothing of {} of {} cells and {} of {} slots is given back",
                       load.queued, absl::FormatDuration(load.no_room), load.cells_used, load.cells_total, load.slots_used,
                       load.slots_total);
  }
  return "";
}

ReadinessWatch::ReadinessWatch(const Readiness* readiness, absl::Duration every, std::function<void(bool)> set_serving, Logger log)
    : readiness_(readiness), every_(every), set_serving_(std::move(set_serving)), log_(std::move(log)) {
  thread_ = std::thread([this] { Run(); });
}

void ReadinessWatch::Stop() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    wake_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void ReadinessWatch::Run() {
  std::optional<bool> told;
  for (;;) {
    const std::string why = readiness_->WhyNot();
    MutexLock lock(mu_);
    if (stop_) return;
    if (told != why.empty()) {
      if (!why.empty()) {
        ++times_stuck_;
        log_->error("not serving: {}", why);
      } else if (told) {
        log_->warn("serving again");
      }
      told = why.empty();
      set_serving_(*told);
    }
    wake_.WaitFor(mu_, absl::ToChronoNanoseconds(every_));
    if (stop_) return;
  }
}

}  // namespace riskkv::worker

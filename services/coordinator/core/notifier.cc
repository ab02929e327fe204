#include "services/coordinator/core/notifier.h"

#include <algorithm>
#include <utility>

namespace riskkv::coordinator {

Notifier::Notifier(NotifierOptions options, WorkerApi* api, const WorkerRegistry* registry, const Clock* clock, Logger log)
    : options_(options), api_(api), registry_(registry), clock_(clock), log_(std::move(log)) {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Loop(); });
}

Notifier::~Notifier() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<bool> Notifier::Tell(const WorkerName& worker, const DecideArgs& args) {
  absl::StatusOr<bool> known = api_->Decide(worker, args, options_.call_timeout);
  if (known.ok()) {
    log_->debug("mig={}/{} told {} {}{}", args.fence.migration_id, args.fence.attempt, worker.id, Name(args.decision),
                *known ? "" : " (it held nothing)");
  }
  return known;
}

void Notifier::TellOrQueue(const WorkerName& worker, const DecideArgs& args) {
  if (Tell(worker, args).ok()) return;
  Queue(worker, args);
}

void Notifier::Queue(const WorkerName& worker, const DecideArgs& args) {
  absl::Duration now = clock_->Monotonic();
  Push({worker, args, now, now, options_.retry});
}

void Notifier::Push(Note note) {
  MutexLock lock(mu_);
  if (stopping_) return;
  notes_.push_back(std::move(note));
  changed_.NotifyOne();
}

void Notifier::Handle(Note note) {
  // Another boot of the worker holds nothing of the attempt; one that only has no lease may still be there.
  auto current = registry_->Find(note.worker.id);
  if (current.ok() && current->info.name.boot_id != note.worker.boot_id) return;
  absl::StatusOr<bool> known = Tell(note.worker, note.args);
  if (known.ok()) return;
  absl::Duration now = clock_->Monotonic();
  if (now - note.since > options_.give_up) {
    log_->warn("mig={}/{} could not tell {} {}: {}; it has to ask", note.args.fence.migration_id, note.args.fence.attempt,
               note.worker.id, Name(note.args.decision), known.status());
    return;
  }
  note.due = now + note.delay;
  note.delay = std::min(note.delay * 2, absl::Seconds(4));
  Push(std::move(note));
}

void Notifier::Loop() {
  for (;;) {
    Note note;
    {
      MutexLock lock(mu_);
      for (;;) {
        if (stopping_) return;
        absl::Duration now = clock_->Monotonic();
        auto due = std::find_if(notes_.begin(), notes_.end(), [&](const Note& n) { return n.due <= now; });
        if (due != notes_.end()) {
          note = std::move(*due);
          notes_.erase(due);
          break;
        }
        changed_.WaitFor(mu_, std::chrono::milliseconds(notes_.empty() ? 1000 : 50));
      }
    }
    Handle(std::move(note));
  }
}

}  // namespace riskkv::coordinator

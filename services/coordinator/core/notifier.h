// Tells workers what was decided, again and again until they answer. A worker that is never reached asks by itself (Resolve), so
// nothing depends on this but how soon it knows.
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_NOTIFIER_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_NOTIFIER_H_

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/obs/log.h"
#include "services/coordinator/core/worker_api.h"
#include "services/coordinator/core/worker_registry.h"

namespace riskkv::coordinator {

struct NotifierOptions {
  int threads = 4;
  absl::Duration call_timeout = absl::Seconds(2);
  absl::Duration retry = absl::Milliseconds(250);  // doubled up to 4 s
  absl::Duration give_up = absl::Seconds(60);
};

// Thread-safe. Only decisions that are durable may be passed in.
class Notifier {
 public:
  Notifier(NotifierOptions options, WorkerApi* api, const WorkerRegistry* registry, const Clock* clock, Logger log);
  ~Notifier();  // drops what was not told

  // Once, now.
  absl::StatusOr<bool> Tell(const WorkerName& worker, const DecideArgs& args);
  // Once now; if that fails, in the background.
  void TellOrQueue(const WorkerName& worker, const DecideArgs& args);
  // In the background.
  void Queue(const WorkerName& worker, const DecideArgs& args);

 private:
  struct Note {
    WorkerName worker;
    DecideArgs args;
    absl::Duration due;    // monotonic
    absl::Duration since;
    absl::Duration delay;
  };
  void Loop();
  void Handle(Note note);
  void Push(Note note);

  const NotifierOptions options_;
  WorkerApi* const api_;
  const WorkerRegistry* const registry_;
  const Clock* const clock_;
  const Logger log_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Note> notes_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_NOTIFIER_H_

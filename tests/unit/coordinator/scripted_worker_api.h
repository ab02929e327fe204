// A WorkerApi that does what the test says and remembers what it was asked.
#ifndef RISKKV_TESTS_UNIT_COORDINATOR_SCRIPTED_WORKER_API_H_
#define RISKKV_TESTS_UNIT_COORDINATOR_SCRIPTED_WORKER_API_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "services/coordinator/core/worker_api.h"

namespace riskkv::coordinator {

// What one StartMove says; the script writes, the coordinator reads.
class ScriptedStream {
 public:
  void Say(MigrationState state, decltype(MoveEvent::detail) detail = {}) {
    MutexLock lock(mu_);
    events_.push_back(std::make_unique<MoveEvent>(MoveEvent{state, std::move(detail)}));
    changed_.NotifyAll();
  }
  void End(absl::Status status) {
    MutexLock lock(mu_);
    if (ended_) return;
    ended_ = true;
    status_ = std::move(status);
    changed_.NotifyAll();
  }
  void Cancel() {
    MutexLock lock(mu_);
    cancelled_ = true;
    changed_.NotifyAll();
  }
  bool cancelled() const {
    MutexLock lock(mu_);
    return cancelled_;
  }
  // True when the coordinator ended the call before `timeout`.
  bool AwaitCancel(absl::Duration timeout) {
    absl::Time until = absl::Now() + timeout;
    MutexLock lock(mu_);
    while (!cancelled_ && absl::Now() < until) changed_.WaitFor(mu_, std::chrono::milliseconds(5));
    return cancelled_;
  }
  std::unique_ptr<MoveEvent> Next() {
    MutexLock lock(mu_);
    while (events_.empty() && !ended_ && !cancelled_) changed_.Wait(mu_);
    if (events_.empty()) return nullptr;
    auto event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  absl::Status Finish() {
    MutexLock lock(mu_);
    return ended_ ? status_ : absl::CancelledError("cancelled");
  }

 private:
  mutable Mutex mu_;
  CondVar changed_;
  std::deque<std::unique_ptr<MoveEvent>> events_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

class ScriptedWorkerApi : public WorkerApi {
 public:
  struct Told {
    std::string worker;
    Decision decision;
    uint32_t attempt;
    uint64_t epoch;
  };
  using Script = std::function<void(ScriptedStream&, const StartMoveArgs&)>;

  ~ScriptedWorkerApi() override { Join(); }
  // Scripts must have ended before what they use is gone.
  void Join() {
    std::vector<std::thread> threads;
    {
      MutexLock lock(mu_);
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }

  // --- the script; set before use ---
  std::map<std::string, RequestInfo> requests;
  std::function<absl::Status(const ReserveArgs&)> on_reserve = [](const ReserveArgs&) { return absl::OkStatus(); };
  Script on_move;
  std::function<absl::StatusOr<bool>(const WorkerName&, const DecideArgs&)> on_decide;
  std::function<absl::StatusOr<AttemptInfo>(const Fence&)> on_query;
  std::function<absl::StatusOr<RequestInfo>(const WorkerName&, const std::string&)> on_get;
  std::function<absl::Status(const WorkerName&, const std::string&)> on_fetch;
  std::function<WorkerName(const WorkerName&)> on_boot;  // who answers at that address

  // --- what was asked ---
  std::vector<Told> told() const {
    MutexLock lock(mu_);
    return told_;
  }
  bool WasTold(const std::string& worker, Decision decision) const {
    for (const Told& t : told()) {
      if (t.worker == worker && t.decision == decision) return true;
    }
    return false;
  }
  std::vector<StartMoveArgs> moves() const {
    MutexLock lock(mu_);
    return moves_;
  }
  std::vector<ReserveArgs> reserves() const {
    MutexLock lock(mu_);
    return reserves_;
  }
  std::vector<std::string> fetches() const {
    MutexLock lock(mu_);
    return fetches_;
  }
  std::vector<AdoptArgs> adopted() const {
    MutexLock lock(mu_);
    return adopted_;
  }

  // --- WorkerApi ---
  absl::StatusOr<RequestInfo> GetRequest(const WorkerName& worker, const std::string& id) override {
    if (on_get) return on_get(worker, id);
    MutexLock lock(mu_);
    auto it = requests.find(id);
    if (it == requests.end()) return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_REQUEST", "no request " + id);
    return it->second;
  }
  absl::Status Reserve(const WorkerName&, const ReserveArgs& args, absl::Duration) override {
    {
      MutexLock lock(mu_);
      reserves_.push_back(args);
    }
    return on_reserve(args);
  }
  std::unique_ptr<MoveStream> StartMove(const WorkerName&, const StartMoveArgs& args) override {
    auto stream = std::make_shared<ScriptedStream>();
    MutexLock lock(mu_);
    moves_.push_back(args);
    threads_.emplace_back([this, stream, args] { on_move(*stream, args); });
    return std::make_unique<Reader>(stream);
  }
  absl::StatusOr<bool> Decide(const WorkerName& worker, const DecideArgs& args, absl::Duration) override {
    {
      MutexLock lock(mu_);
      told_.push_back({worker.id, args.decision, args.fence.attempt, args.new_epoch});
    }
    return on_decide ? on_decide(worker, args) : true;
  }
  absl::StatusOr<AttemptInfo> QueryAttempt(const WorkerName&, const Fence& fence, absl::Duration) override {
    if (on_query) return on_query(fence);
    return AttemptInfo{.known = true};
  }
  absl::Status FetchSet(const WorkerName& worker, const std::string& digest, const std::vector<std::string>&,
                        absl::Duration) override {
    {
      MutexLock lock(mu_);
      fetches_.push_back(worker.id + ":" + digest);
    }
    return on_fetch ? on_fetch(worker, digest) : absl::OkStatus();
  }
  absl::StatusOr<LinkSample> MeasureLink(const WorkerName&, const std::string&, absl::Duration) override {
    return LinkSample{.bytes_per_second = 5e8, .rtt_seconds = 0.0002};
  }
  absl::Status Adopt(const WorkerName&, const AdoptArgs& args, absl::Duration) override {
    MutexLock lock(mu_);
    adopted_.push_back(args);
    return absl::OkStatus();
  }
  absl::StatusOr<WorkerInfo> Describe(const WorkerName& worker, absl::Duration) override {
    WorkerInfo info;
    info.name = on_boot ? on_boot(worker) : worker;
    return info;
  }
  void ForgetRequest(const std::string& id) {
    MutexLock lock(mu_);
    requests.erase(id);
  }
  void SetRequest(const RequestInfo& info) {
    MutexLock lock(mu_);
    requests[info.request_id] = info;
  }

 private:
  class Reader : public MoveStream {
   public:
    explicit Reader(std::shared_ptr<ScriptedStream> stream) : stream_(std::move(stream)) {}
    std::unique_ptr<MoveEvent> Next() override { return stream_->Next(); }
    absl::Status Finish() override { return stream_->Finish(); }
    void Cancel() override { stream_->Cancel(); }

   private:
    std::shared_ptr<ScriptedStream> stream_;
  };

  mutable Mutex mu_;
  std::vector<Told> told_ ABSL_GUARDED_BY(mu_);
  std::vector<StartMoveArgs> moves_ ABSL_GUARDED_BY(mu_);
  std::vector<ReserveArgs> reserves_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> fetches_ ABSL_GUARDED_BY(mu_);
  std::vector<AdoptArgs> adopted_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_TESTS_UNIT_COORDINATOR_SCRIPTED_WORKER_API_H_

#include "tests/faults/cluster.h"

#include <algorithm>

#include "common/base/failpoint.h"
#include "fmt/format.h"

namespace riskkv::faults {

Cluster::Cluster(const Times& t) {
  times = t;
  (void)kernels::CreateBackend(kernels::BackendChoice::kCpu, 1, &backend_);
  for (const char* id : {kCoordinatorId, "a", "b"}) Start(id);
  operator_ = std::thread([this] { Operate(); });
  heartbeats_ = std::thread([this] { Heartbeats(); });
}

Cluster::~Cluster() {
  for (const char* id : {kCoordinatorId, "a", "b"}) Kill(id, absl::InfiniteDuration());
  stop_ = true;
  operator_.join();
  heartbeats_.join();
  for (const char* id : {kCoordinatorId, "a", "b"}) Kill(id, absl::InfiniteDuration());  // what was started meanwhile
  {
    MutexLock lock(mu_);
    actions_.clear();  // they hold what is to be buried
  }
  for (; Waiting(); absl::SleepFor(absl::Microseconds(200))) Bury();
  network.Drain();
}

ProcessPtr Cluster::NewProcess(const std::string& id) {
  MutexLock lock(mu_);
  const int number = ++last_number_;
  ProcessPtr& process = processes_[id];
  const bool keep = RISKKV_MUTANT("restarted worker keeps its boot id") && process != nullptr;
  const std::string boot = keep ? process->boot : fmt::format("{}{}", id, number);
  return process = std::make_shared<Process>(id, boot, number);
}

void Cluster::Start(const std::string& id) {
  ProcessPtr process = NewProcess(id);
  if (id != kCoordinatorId) {
    auto node = std::make_shared<WorkerNode>(this, process, backend_.get());
    MutexLock lock(mu_);
    workers_[id] = node;
    return;
  }
  auto node = std::make_shared<CoordinatorNode>(this, &disk, process);
  if (!node->Start().ok()) {
    // As a supervisor does.
    After(absl::Milliseconds(10), [this] { Start(kCoordinatorId); });
    return;
  }
  MutexLock lock(mu_);
  coordinator_ = node;
}

WorkerPtr Cluster::Worker(const std::string& address) {
  MutexLock lock(mu_);
  auto it = workers_.find(address);
  return it == workers_.end() ? nullptr : it->second;
}

CoordinatorPtr Cluster::Coordinator() {
  MutexLock lock(mu_);
  return coordinator_;
}

void Cluster::Kill(const std::string& id, absl::Duration back) {
  {
    MutexLock lock(mu_);
    auto process = processes_.find(id);
    if (process == processes_.end() || process->second->dead.exchange(true)) return;
    if (id == kCoordinatorId) {
      if (coordinator_ != nullptr) dead_coordinators_.push_back(std::move(coordinator_));
      coordinator_ = nullptr;
    } else if (auto it = workers_.find(id); it != workers_.end()) {
      dead_workers_.push_back(std::move(it->second));
      workers_.erase(it);
    }
  }
  if (back < absl::InfiniteDuration()) {
    After(back, [this, id] { Start(id); });
  }
}

void Cluster::Pause(const std::string& id, absl::Duration time) {
  ProcessPtr process;
  {
    MutexLock lock(mu_);
    process = processes_[id];
  }
  process->paused = true;
  After(time, [process] { process->paused = false; });
}

void Cluster::After(absl::Duration time, std::function<void()> action) {
  MutexLock lock(mu_);
  actions_.emplace_back(absl::Now() + time, std::move(action));
  ++pending_;
}

void Cluster::Operate() {
  while (!stop_) {
    std::vector<std::function<void()>> due;
    {
      MutexLock lock(mu_);
      for (auto it = actions_.begin(); it != actions_.end();) {
        if (it->first > absl::Now()) {
          ++it;
          continue;
        }
        due.push_back(std::move(it->second));
        it = actions_.erase(it);
      }
    }
    for (auto& action : due) {
      action();
      MutexLock lock(mu_);
      --pending_;
    }
    Bury();
    absl::SleepFor(absl::Milliseconds(1));
  }
}

// What is dead goes once no call holds it any more.
void Cluster::Bury() {
  std::vector<WorkerPtr> workers, gone_workers;
  std::vector<CoordinatorPtr> gone_coordinators;
  {
    MutexLock lock(mu_);
    workers = dead_workers_;
    for (auto it = dead_coordinators_.begin(); it != dead_coordinators_.end();) {
      if (it->use_count() > 1) {
        ++it;
        continue;
      }
      gone_coordinators.push_back(std::move(*it));
      it = dead_coordinators_.erase(it);
    }
  }
  for (const WorkerPtr& node : workers) node->manager->Stop();  // ends what waits on its loop
  workers.clear();
  {
    MutexLock lock(mu_);
    for (auto it = dead_workers_.begin(); it != dead_workers_.end();) {
      if (it->use_count() > 1) {
        ++it;
        continue;
      }
      gone_workers.push_back(std::move(*it));
      it = dead_workers_.erase(it);
    }
  }
}

bool Cluster::Waiting() {
  MutexLock lock(mu_);
  return !dead_workers_.empty() || !dead_coordinators_.empty();
}

void Cluster::Heartbeats() {
  while (!stop_) {
    std::vector<WorkerPtr> nodes;
    {
      MutexLock lock(mu_);
      for (const auto& [id, node] : workers_) nodes.push_back(node);
    }
    for (const WorkerPtr& node : nodes) Beat(node);
    nodes.clear();
    absl::SleepFor(times.heartbeat);
  }
}

void Cluster::Beat(const WorkerPtr& node) {
  CoordinatorPtr c = Coordinator();
  if (c == nullptr || node->process->dead || node->process->paused || c->process->paused) return;
  network
      .Call(Message::kLease, node->process, c->process, {.timeout = absl::Milliseconds(5)},
            [c, node]() -> absl::Status {
              if (c->registry.Renew(node->Renewal()).ok()) return absl::OkStatus();
              return c->registry.Register(node->Describe());
            })
      .IgnoreError();
}

void Cluster::Heal() {
  network.ClearRules();
  network.MendAll();
  network.flips = 0;
  disk.full = disk.unreachable = false;
  disk.lose_answers = 0;
  {
    MutexLock lock(mu_);
    for (auto& [time, action] : actions_) time = absl::Now();
  }
  Eventually(
      [&] {
        MutexLock lock(mu_);
        for (auto& [time, action] : actions_) time = absl::Now();
        return pending_ == 0;
      },
      absl::Seconds(20));
}

bool Cluster::Ready() {
  CoordinatorPtr c = Coordinator();
  if (c == nullptr) return false;
  for (const char* id : {"a", "b"}) {
    WorkerPtr node = Worker(id);
    auto known = c->registry.FindAlive(id);
    if (node == nullptr || !known.ok() || known->name.boot_id != node->process->boot) return false;
  }
  return true;
}

bool Cluster::Idle() {
  WorkerPtr a = Worker("a"), b = Worker("b");
  return a != nullptr && b != nullptr && a->Idle() && b->Idle();
}

bool Cluster::Eventually(const std::function<bool()>& holds, absl::Duration patience) {
  const absl::Time end = absl::Now() + patience;
  while (!holds()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

std::string Cluster::Text() {
  std::string text;
  for (const char* id : {"a", "b"}) {
    WorkerPtr node = Worker(id);
    text += "  " + (node == nullptr ? std::string(id) + " is not there" : node->Holdings()) + "\n";
  }
  return text + trace.Text();
}

}  // namespace riskkv::faults

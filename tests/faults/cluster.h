// Two workers, a coordinator, a store and the network between them, in one process, with everything that can happen to them.
#ifndef RISKKV_TESTS_FAULTS_CLUSTER_H_
#define RISKKV_TESTS_FAULTS_CLUSTER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/faults/client.h"
#include "tests/faults/coordinator_node.h"
#include "tests/faults/worker_node.h"

namespace riskkv::faults {

inline constexpr const char* kCoordinatorId = "coordinator";
inline constexpr const char* kClientId = "client";

// Faults may be ordered from any thread, also from inside a process they hit: what takes long happens on the cluster's own threads.
class Cluster : public World {
 public:
  explicit Cluster(const Times& times = {});
  ~Cluster() override;

  WorkerPtr Worker(const std::string& address) override;
  CoordinatorPtr Coordinator() override;
  ProcessPtr NewProcess(const std::string& id);

  // At once, nothing of it is heard any more; its memory is lost, and another boot starts after `back`.
  void Kill(const std::string& id, absl::Duration back);
  void Pause(const std::string& id, absl::Duration time);
  void After(absl::Duration time, std::function<void()> action);
  // Everything works again; what is dead starts again. Returns once it has.
  void Heal();

  Disk disk;

  // Whether `holds` within `patience`.
  static bool Eventually(const std::function<bool()>& holds, absl::Duration patience);
  // Both workers and the coordinator are there and know each other.
  bool Ready();
  bool Idle();
  std::string Text();

 private:
  void Start(const std::string& id);
  void Operate();
  void Heartbeats();
  void Beat(const WorkerPtr& node);
  void Bury();
  bool Waiting();

  std::unique_ptr<kernels::Backend> backend_;
  Mutex mu_;
  int last_number_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, WorkerPtr> workers_ ABSL_GUARDED_BY(mu_);
  CoordinatorPtr coordinator_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, ProcessPtr> processes_ ABSL_GUARDED_BY(mu_);  // the newest boot of each
  std::vector<std::pair<absl::Time, std::function<void()>>> actions_ ABSL_GUARDED_BY(mu_);
  int pending_ ABSL_GUARDED_BY(mu_) = 0;  // actions not yet done
  std::vector<WorkerPtr> dead_workers_ ABSL_GUARDED_BY(mu_);
  std::vector<CoordinatorPtr> dead_coordinators_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> stop_{false};
  std::thread operator_, heartbeats_;
};

}  // namespace riskkv::faults

#endif  // RISKKV_TESTS_FAULTS_CLUSTER_H_

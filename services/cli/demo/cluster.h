// A coordinator and two workers on this machine, as processes, and with options.link_mbit a third.
#ifndef RISKKV_SERVICES_CLI_DEMO_CLUSTER_H_
#define RISKKV_SERVICES_CLI_DEMO_CLUSTER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/cli/demo/child_process.h"
#include "services/cli/demo/options.h"

namespace riskkv::cli {

// Not thread-safe. Ends its processes when it goes.
class Cluster {
 public:
  // Logs, ports and the store lie in `folder`; workers load the sets in `predictors`.
  Cluster(const DemoOptions& options, std::string folder, std::string predictors);
  ~Cluster();

  // Starts all and waits until they listen. No gRPC is used: processes are to be started before it is.
  absl::Status Start();
  // Waits until the coordinator lists all workers as serving.
  absl::Status AwaitServing(absl::Duration timeout);
  // UNAVAILABLE, with the end of its log, when one of them has died.
  absl::Status CheckAlive();
  // SIGKILL, and waits until it is gone: for tests of what the others do then.
  void Kill(int worker);

  const std::string& coordinator() const { return coordinator_; }
  // 0 is the worker "a", 1 is "b", 2 is "c", which sends at options.link_mbit.
  const std::string& worker(int i) const { return workers_.at(i); }
  static std::string WorkerId(int i) { return std::string(1, static_cast<char>('a' + i)); }

 private:
  absl::Status LaunchWorkers(int from, int to);
  absl::Status Launch(const std::string& name, std::vector<std::string> argv);
  absl::StatusOr<std::string> AwaitAddress(const std::string& name);
  std::vector<std::string> WorkerArguments(int worker) const;
  std::string LogTail(const std::string& name) const;

  const DemoOptions options_;
  const std::string folder_, predictors_;
  struct Member {
    std::string name;
    std::unique_ptr<ChildProcess> process;
  };
  std::vector<Member> members_;
  std::string coordinator_;
  std::vector<std::string> workers_;
};

// A file's path beside this program.
std::string BesideThisProgram(const std::string& name);

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_DEMO_CLUSTER_H_

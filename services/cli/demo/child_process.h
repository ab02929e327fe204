// A child process that never outlives its parent.
#ifndef RISKKV_SERVICES_CLI_DEMO_CHILD_PROCESS_H_
#define RISKKV_SERVICES_CLI_DEMO_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace riskkv::cli {

struct ChildOptions {
  std::vector<std::string> argv;  // argv[0] is the binary's path
  std::string stdout_path;        // "": the parent's stderr, so that stdout stays the parent's
  std::string stderr_path;        // "": the parent's
};

// Not thread-safe. The kernel kills the child when the thread that started it ends (PR_SET_PDEATHSIG),
// whatever way.
class ChildProcess {
 public:
  // NOT_FOUND when there is no such binary.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const ChildOptions& options);
  // Stops it.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // The exit code, 128 + signal for a killed one; nothing while it runs.
  std::optional<int> Poll();
  // SIGTERM, after the grace SIGKILL; waits for the end.
  int Stop(absl::Duration grace = absl::Seconds(5));
  void Signal(int signal) const;
  const std::string& name() const { return name_; }

 private:
  ChildProcess(pid_t pid, std::string name) : pid_(pid), name_(std::move(name)) {}
  const pid_t pid_;
  const std::string name_;
  std::optional<int> exit_code_;
};

}  // namespace riskkv::cli

#endif  // RISKKV_SERVICES_CLI_DEMO_CHILD_PROCESS_H_

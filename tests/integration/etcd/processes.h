// Processes for the tests with a real etcd: killed with the test, stopped and continued by it.
#ifndef RISKKV_TESTS_INTEGRATION_ETCD_PROCESSES_H_
#define RISKKV_TESTS_INTEGRATION_ETCD_PROCESSES_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace riskkv::testing {

// Waits until `condition` holds, at most `timeout`; whether it does.
template <typename Condition>
bool WaitUntil(absl::Duration timeout, Condition condition);

int FreePort();
// A new folder below the test's temporary one.
std::string NewFolder(const std::string& name);

class Process {
 public:
  // Output goes to `log`. The process dies with this one.
  Process(std::vector<std::string> arguments, const std::string& log);
  ~Process();  // Kill
  void Kill();      // -9, and waits
  void Terminate(); // SIGTERM, and waits
  void Pause();     // returns when it has stopped
  void Continue();

 private:
  void End(int signal);
  pid_t pid_ = -1;
};

// One etcd with its own folder and ports, the same after Restart. etcd's time to live is then at least one second.
class EtcdServer {
 public:
  // Null when there is no etcd here (package etcd-server).
  static std::unique_ptr<EtcdServer> Start();
  ~EtcdServer();
  // "etcd:127.0.0.1:PORT"
  std::string spec() const { return "etcd:" + endpoint(); }
  std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }
  Process& process() { return *process_; }
  void Kill() { process_->Kill(); }
  void Restart();  // on the same folder; returns when it answers
  bool AwaitReady();

 private:
  EtcdServer(std::string binary) : binary_(std::move(binary)) {}
  std::string binary_, folder_;
  int port_ = 0, peer_port_ = 0;
  std::unique_ptr<Process> process_;
};

}  // namespace riskkv::testing

// --- implementation of the template ---
#include "absl/time/clock.h"

namespace riskkv::testing {

template <typename Condition>
bool WaitUntil(absl::Duration timeout, Condition condition) {
  const absl::Time until = absl::Now() + timeout;
  while (absl::Now() < until) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return condition();
}

}  // namespace riskkv::testing

#endif  // RISKKV_TESTS_INTEGRATION_ETCD_PROCESSES_H_

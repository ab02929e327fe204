#include "services/cli/demo/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "absl/time/clock.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::cli {
namespace {

constexpr int kNoExec = 127;

// An open file for a stream of the child; -1 when it cannot be had.
int OpenLog(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

// Between fork and exec: only calls that are safe there.
[[noreturn]] void RunChild(char* const* argv, int out, int err, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNoExec);
  setpgid(0, 0);  // a terminal's Ctrl-C reaches the parent alone, which stops its children in order
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execv(argv[0], argv);
  _exit(kNoExec);
}

int CodeOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const ChildOptions& options) {
  const std::string& binary = options.argv.at(0);
  if (access(binary.c_str(), X_OK) != 0) {
    return MakeError(absl::StatusCode::kNotFound, "BAD_ARGUMENT",
                     fmt::format("no executable {}: {}", binary, std::strerror(errno)));
  }
  std::vector<char*> argv;
  for (const std::string& arg : options.argv) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  int err = options.stderr_path.empty() ? STDERR_FILENO : OpenLog(options.stderr_path);
  int out = options.stdout_path.empty() ? STDERR_FILENO : OpenLog(options.stdout_path);
  if (out < 0 || err < 0) {
    return absl::InternalError(fmt::format("cannot write the log {} or {}: {}", options.stdout_path,
                                           options.stderr_path, std::strerror(errno)));
  }
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid == 0) RunChild(argv.data(), out, err, parent);
  if (!options.stderr_path.empty()) close(err);
  if (!options.stdout_path.empty()) close(out);
  if (pid < 0) return absl::InternalError(fmt::format("cannot start {}: {}", binary, std::strerror(errno)));
  return std::unique_ptr<ChildProcess>(
      new ChildProcess(pid, std::filesystem::path(binary).filename().string()));
}

ChildProcess::~ChildProcess() { Stop(); }

std::optional<int> ChildProcess::Poll() {
  if (exit_code_) return exit_code_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) exit_code_ = CodeOf(status);
  return exit_code_;
}

void ChildProcess::Signal(int signal) const {
  if (!exit_code_) kill(pid_, signal);
}

int ChildProcess::Stop(absl::Duration grace) {
  if (Poll()) return *exit_code_;
  Signal(SIGTERM);
  const absl::Time end = absl::Now() + grace;
  while (!Poll() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(10));
  if (Poll()) return *exit_code_;
  Signal(SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_code_ = CodeOf(status);
  return *exit_code_;
}

}  // namespace riskkv::cli

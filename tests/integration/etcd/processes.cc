#include "tests/integration/etcd/processes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "common/net/etcd_client.h"
#include "gtest/gtest.h"

namespace riskkv::testing {
namespace {

std::string FindProgram(const std::string& name) {
  const char* path = getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  rest += ":/usr/bin:/usr/local/bin";
  for (std::size_t at = 0; at <= rest.size();) {
    const std::size_t end = std::min(rest.find(':', at), rest.size());
    const std::string candidate = rest.substr(at, end - at) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    at = end + 1;
  }
  return "";
}

}  // namespace

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  int port = 0;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port = ntohs(address.sin_port);
  }
  close(fd);
  return port;
}

std::string NewFolder(const std::string& name) {
  std::string pattern = ::testing::TempDir() + "riskkv-" + name + "-XXXXXX";
  return mkdtemp(pattern.data());
}

Process::Process(std::vector<std::string> arguments, const std::string& log) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, 1);
    dup2(out, 2);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(out);
}

Process::~Process() { Kill(); }

void Process::End(int signal) {
  if (pid_ <= 0) return;
  kill(pid_, signal);
  kill(pid_, SIGCONT);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void Process::Kill() { End(SIGKILL); }
void Process::Terminate() { End(SIGTERM); }

void Process::Pause() {
  kill(pid_, SIGSTOP);
  int status = 0;
  waitpid(pid_, &status, WUNTRACED);
}

void Process::Continue() { kill(pid_, SIGCONT); }

std::unique_ptr<EtcdServer> EtcdServer::Start() {
  const std::string binary = FindProgram("etcd");
  if (binary.empty()) return nullptr;
  std::unique_ptr<EtcdServer> server(new EtcdServer(binary));
  server->folder_ = NewFolder("etcd");
  server->port_ = FreePort();
  server->peer_port_ = FreePort();
  server->Restart();
  return server;
}

EtcdServer::~EtcdServer() {
  process_.reset();
  std::filesystem::remove_all(folder_);
}

void EtcdServer::Restart() {
  const std::string client = "http://" + endpoint();
  const std::string peer = "http://127.0.0.1:" + std::to_string(peer_port_);
  process_ = std::make_unique<Process>(
      std::vector<std::string>{binary_, "--name", "t", "--data-dir", folder_ + "/data", "--listen-client-urls", client,
                               "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                               "--initial-cluster", "t=" + peer, "--heartbeat-interval", "50", "--election-timeout", "500"},
      folder_ + "/log");
  EXPECT_TRUE(AwaitReady()) << "etcd does not answer; its log: " << folder_ << "/log";
}

bool EtcdServer::AwaitReady() {
  EtcdClient client({.endpoints = {endpoint()}, .timeout = absl::Seconds(1)});
  return WaitUntil(absl::Seconds(60), [&] { return client.Range({.key = "ready"}).ok(); });
}

}  // namespace riskkv::testing

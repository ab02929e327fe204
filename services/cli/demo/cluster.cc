#include "services/cli/demo/cluster.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/status.h"
#include "fmt/format.h"
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "services/cli/interrupt.h"
#include "services/cli/rpc.h"

namespace riskkv::cli {
namespace {

// Loading a model and measuring its rates takes seconds; a slow disk takes longer.
constexpr absl::Duration kListenTimeout = absl::Seconds(120);
constexpr size_t kLogTail = 1500;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string Trimmed(std::string s) {
  s.erase(s.find_last_not_of(" \r\n\t") + 1);
  return s;
}

}  // namespace

std::string BesideThisProgram(const std::string& name) {
  std::error_code error;
  std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? name : (self.parent_path() / name).string();
}

Cluster::Cluster(const DemoOptions& options, std::string folder, std::string predictors)
    : options_(options), folder_(std::move(folder)), predictors_(std::move(predictors)) {}

Cluster::~Cluster() {
  // Workers first: they tell the coordinator that they go.
  while (!members_.empty()) members_.pop_back();
}

absl::Status Cluster::Start() {
  std::string binary = options_.coordinator_binary.empty() ? BesideThisProgram("riskkv-coordinator")
                                                           : options_.coordinator_binary;
  RETURN_IF_ERROR(Launch("coordinator", {binary, "--listen", "127.0.0.1:0", "--store",
                                         "sqlite:" + folder_ + "/coordinator.db"}));
  ASSIGN_OR_RETURN(coordinator_, AwaitAddress("coordinator"));
  RETURN_IF_ERROR(LaunchWorkers(0, 2));
  // After the others, which measure what computing costs while they start.
  return options_.link_mbit > 0 ? LaunchWorkers(2, 3) : absl::OkStatus();
}

absl::Status Cluster::LaunchWorkers(int from, int to) {
  for (int i = from; i < to; ++i) RETURN_IF_ERROR(Launch("worker-" + WorkerId(i), WorkerArguments(i)));
  for (int i = from; i < to; ++i) {
    ASSIGN_OR_RETURN(std::string address, AwaitAddress("worker-" + WorkerId(i)));
    workers_.push_back(address);
  }
  return absl::OkStatus();
}

std::vector<std::string> Cluster::WorkerArguments(int worker) const {
  std::string binary =
      options_.worker_binary.empty() ? BesideThisProgram("riskkv-worker") : options_.worker_binary;
  // One engine thread each: ggml's threads spin, and two workers must not fight over two cores.
  std::vector<std::string> argv = {binary,
                                   "--id",
                                   WorkerId(worker),
                                   "--listen",
                                   "127.0.0.1:0",
                                   "--coordinator",
                                   coordinator_,
                                   "--engine",
                                   options_.engine,
                                   "--cells",
                                   std::to_string(options_.cells),
                                   "--sequences",
                                   "4",
                                   "--threads",
                                   "1",
                                   "--predictors",
                                   predictors_};
  // Without a pace of its own the fake engine would end before anything can be moved.
  if (options_.engine == "fake") argv.insert(argv.end(), {"--fake-step-ms", "5"});
  if (worker == 2) argv.insert(argv.end(), {"--egress-limit", std::to_string(int64_t{options_.link_mbit} * 125000)});
  if (!options_.model.empty()) argv.insert(argv.end(), {"--model", options_.model});
  return argv;
}

absl::Status Cluster::Launch(const std::string& name, std::vector<std::string> argv) {
  argv.insert(argv.end(), {"--port-file", folder_ + "/" + name + ".port"});
  std::string log = folder_ + "/" + name + ".log";
  absl::StatusOr<std::unique_ptr<ChildProcess>> process = ChildProcess::Start({std::move(argv), log, log});
  RETURN_IF_ERROR(process.status());
  members_.push_back({name, *std::move(process)});
  return absl::OkStatus();
}

absl::StatusOr<std::string> Cluster::AwaitAddress(const std::string& name) {
  const absl::Time end = absl::Now() + kListenTimeout;
  while (absl::Now() < end) {
    if (Interrupted()) return absl::CancelledError("interrupted");
    RETURN_IF_ERROR(CheckAlive());
    std::string port = Trimmed(ReadAll(folder_ + "/" + name + ".port"));
    if (!port.empty()) return port.find(':') == std::string::npos ? "127.0.0.1:" + port : port;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return MakeError(absl::StatusCode::kDeadlineExceeded, "NOT_READY",
                   fmt::format("{} does not listen after {}; its log ends:\n{}", name,
                               absl::FormatDuration(kListenTimeout), LogTail(name)));
}

absl::Status Cluster::AwaitServing(absl::Duration timeout) {
  Peer<v1::Coordinator> coordinator("coordinator", coordinator_);
  const absl::Time end = absl::Now() + timeout;
  int serving = 0;
  while (absl::Now() < end) {
    if (Interrupted()) return absl::CancelledError("interrupted");
    RETURN_IF_ERROR(CheckAlive());
    auto reply =
        coordinator.Call(&v1::Coordinator::Stub::ListWorkers, v1::ListWorkersRequest(), absl::Seconds(2));
    if (reply.ok()) {
      serving = std::count_if(reply->workers().begin(), reply->workers().end(),
                              [](const auto& w) { return w.serving(); });
      if (serving == static_cast<int>(workers_.size())) return absl::OkStatus();
    }
    absl::SleepFor(absl::Milliseconds(50));
  }
  return MakeError(absl::StatusCode::kDeadlineExceeded, "NOT_READY",
                   fmt::format("{} of {} workers serve after {}; logs are in {}", serving, workers_.size(),
                               absl::FormatDuration(timeout), folder_));
}

absl::Status Cluster::CheckAlive() {
  for (Member& member : members_) {
    std::optional<int> code = member.process->Poll();
    if (!code) continue;
    return MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE",
                     fmt::format("{} ended with exit code {}; its log ends:\n{}", member.name, *code,
                                 LogTail(member.name)));
  }
  return absl::OkStatus();
}

void Cluster::Kill(int worker) {
  ChildProcess& process = *members_.at(1 + static_cast<size_t>(worker)).process;  // the first is the coordinator
  process.Signal(SIGKILL);
  process.Stop();
}

std::string Cluster::LogTail(const std::string& name) const {
  std::string log = ReadAll(folder_ + "/" + name + ".log");
  return log.size() > kLogTail ? log.substr(log.size() - kLogTail) : log;
}

}  // namespace riskkv::cli

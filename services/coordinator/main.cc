// riskkv-coordinator: wiring only.
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>

#include "CLI/CLI.hpp"
#include "common/obs/log.h"
#include "fmt/format.h"
#include "services/coordinator/rpc/coordinator.h"

namespace {

constexpr int kConfigError = 2;
constexpr absl::Duration kShutdown = absl::Seconds(5);

struct Flags {
  std::string listen = "127.0.0.1:7070";
  std::string store = "sqlite:riskkv.db";
  std::string advertise;
  int leader_ttl_s = 5;
  int64_t lease_ms = 10000;
  int64_t renew_ms = 3000;
  std::string port_file;
  int max_jobs = 16;
  std::string log_level = "info";
  bool insecure = false;
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--listen", flags.listen, "host:port; port 0 takes any free one")->capture_default_str();
  app.add_option("--store", flags.store,
                 "sqlite:PATH (one coordinator), etcd:HOST:PORT[,HOST:PORT...][/PREFIX] (several, one of which leads), or memory (nothing "
                 "survives a restart)")
      ->capture_default_str();
  app.add_option("--advertise", flags.advertise,
                 "etcd: the host:port at which workers and clients reach this coordinator when it leads; default: where it listens");
  app.add_option("--leader-ttl-s", flags.leader_ttl_s, "etcd: a leader that is silent for so long is replaced; it stops by itself before")
      ->capture_default_str()
      ->check(CLI::Range(1, 300));
  app.add_option("--lease-ms", flags.lease_ms, "a worker that is silent for so long is gone")
      ->capture_default_str()
      ->check(CLI::Range(100, 3600000));
  app.add_option("--renew-ms", flags.renew_ms, "how often workers renew")->capture_default_str()->check(CLI::Range(20, 3600000));
  app.add_option("--port-file", flags.port_file, "write the port here once serving");
  app.add_option("--max-jobs", flags.max_jobs, "migrations at once")->capture_default_str()->check(CLI::Range(1, 1024));
  app.add_option("--log-level", flags.log_level)
      ->capture_default_str()
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
  app.add_flag("--insecure", flags.insecure, "allow plain text beyond loopback");
  app.footer(
      "Examples:\n"
      "  riskkv-coordinator --listen 127.0.0.1:7070 --store sqlite:/var/lib/riskkv/coordinator.db\n"
      "  riskkv-coordinator --listen 0.0.0.0:7070 --insecure --advertise c1:7070 --store etcd:e1:2379,e2:2379,e3:2379\n"
      "Exit codes: 0 stopped by SIGTERM or SIGINT, 2 it could not start (the message says why).");
}

// Written under another name first, so that a reader never sees half a file.
bool WritePort(const std::string& path, int port) {
  std::string temporary = path + ".tmp";
  std::ofstream out(temporary);
  out << port << "\n";
  out.close();
  return out.good() && std::rename(temporary.c_str(), path.c_str()) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("riskkv coordinator: decides whether and how running requests move, and owns who owns them");
  AddFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kConfigError;
  }
  // Before any thread exists, so that all of them inherit it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  riskkv::coordinator::CoordinatorOptions options;
  options.listen = flags.listen;
  options.store = flags.store;
  options.advertise = flags.advertise;
  options.leader_ttl = absl::Seconds(flags.leader_ttl_s);
  options.lease = absl::Milliseconds(flags.lease_ms);
  options.renew = absl::Milliseconds(flags.renew_ms);
  options.insecure = flags.insecure;
  options.manager.max_jobs = flags.max_jobs;
  options.log = riskkv::MakeLogger("coordinator", flags.log_level);
  auto process = riskkv::coordinator::CoordinatorProcess::Start(options);
  if (!process.ok()) {
    fmt::print(stderr, "riskkv-coordinator: {}\n", process.status());
    return kConfigError;
  }
  if (flags.insecure) options.log->warn("--insecure: serving plain text on {}; anybody who reaches it can move requests", flags.listen);
  if (!flags.port_file.empty() && !WritePort(flags.port_file, (*process)->port())) {
    fmt::print(stderr, "riskkv-coordinator: cannot write --port-file {}\n", flags.port_file);
    return kConfigError;
  }
  options.log->info("serving on {}", (*process)->address());
  int signal = 0;
  sigwait(&signals, &signal);
  options.log->info("stopping on signal {}", signal);
  (*process)->Shutdown(kShutdown);
  return 0;
}

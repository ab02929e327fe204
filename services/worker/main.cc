// riskkv-worker: wiring only.
#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "common/base/status.h"
#include "common/engine/fake/fake_engine.h"
#include "common/engine/llama/llama_engine.h"
#include "common/obs/log.h"
#include "fmt/format.h"
#include "services/worker/rpc/worker_process.h"

namespace {

using riskkv::Engine;

constexpr int kConfigError = 2;
constexpr absl::Duration kShutdown = absl::Seconds(5);

struct Flags {
  riskkv::worker::WorkerOptions worker;
  std::string engine = "llama";
  std::string model;
  int64_t cells = 8192;
  int sequences = 8;
  int threads = 1;
  std::string backend = "auto";
  int fake_step_ms = 0;
  int warm_up = 2048;
  double stuck_after = 30;
  std::string port_file;
  std::string log_level = "info";
};

void AddServiceFlags(CLI::App& app, Flags& f) {
  app.add_option("--id", f.worker.id, "name of this worker, unique within the cluster")->required();
  app.add_option("--listen", f.worker.listen, "host:port; port 0 takes any free one")->capture_default_str();
  app.add_option("--advertise", f.worker.advertise, "host:port the coordinator and other workers reach it at (default: where it listens)");
  app.add_option("--client-address", f.worker.client_address, "host:port clients reach it at, told to them when a request moves (default: as --advertise)");
  app.add_option("--coordinator", f.worker.coordinator, "host:port, or several, comma-separated, of which one leads; without one nothing moves");
  app.add_flag("--insecure", f.worker.insecure, "allow plain text beyond loopback");
  app.add_option("--max-moves", f.worker.max_moves, "moves at once, each way")->capture_default_str()->check(CLI::Range(1, 64));
  app.add_option("--egress-limit", f.worker.egress_limit,
                 "bytes a second this worker sends to others (moves, link probes, predictor sets); 0: no limit")
      ->check(CLI::Range(0.0, 1e12));
  app.add_option("--max-queue", f.worker.manager.max_queue, "requests that may wait")->capture_default_str()->check(CLI::Range(1, 100000));
  app.add_option("--stuck-after", f.stuck_after, "seconds without a step while requests run, or with requests waiting and nothing given back: health says NOT_SERVING")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 86400.0));
  app.add_option("--port-file", f.port_file, "write the port here once serving");
  app.add_option("--log-level", f.log_level)
      ->capture_default_str()
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
}

void AddEngineFlags(CLI::App& app, Flags& f) {
  app.add_option("--engine", f.engine, "llama, or fake (tests: a hash in place of a model)")
      ->capture_default_str()
      ->check(CLI::IsMember({"llama", "fake"}));
  app.add_option("--model", f.model, "GGUF file (engine llama)");
  app.add_option("--cells", f.cells, "KV cells over all requests")->capture_default_str()->check(CLI::Range(64, 1 << 24));
  app.add_option("--sequences", f.sequences, "requests at once")->capture_default_str()->check(CLI::Range(1, 254));
  app.add_option("--threads", f.threads, "engine threads; they spin: keep the sum over all workers at or below the cores")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  app.add_option("--warm-up", f.warm_up, "costs are measured at start, up to this context (about 200 computed tokens); 0: not")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--fake-step-ms", f.fake_step_ms, "what a step of the fake engine takes")->check(CLI::Range(0, 10000));
  app.add_option("--predictors", f.worker.predictors, "folder of predictor sets (*.riskkv)");
  app.add_option("--backend", f.backend, "where omitted layers are rebuilt")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--backend-threads", f.worker.backend_threads)->capture_default_str()->check(CLI::Range(1, 256));
}

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const Flags& f) {
  if (f.engine == "fake") {
    riskkv::FakeOptions options;
    options.n_cells = f.cells;
    options.n_sequences = f.sequences;
    options.step_delay = absl::Milliseconds(f.fake_step_ms);
    return riskkv::FakeEngine::Create(options);
  }
  if (f.model.empty()) {
    return riskkv::MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT", "--model is required with --engine llama");
  }
  riskkv::LlamaOptions options;
  options.model_path = f.model;
  options.n_cells = f.cells;
  options.n_sequences = f.sequences;
  options.threads = f.threads;
  return riskkv::LlamaEngine::Create(options);
}

riskkv::kernels::BackendChoice BackendOf(const std::string& name) {
  if (name == "cpu") return riskkv::kernels::BackendChoice::kCpu;
  return name == "cuda" ? riskkv::kernels::BackendChoice::kCuda : riskkv::kernels::BackendChoice::kAuto;
}

absl::StatusOr<std::unique_ptr<riskkv::worker::WorkerProcess>> StartWorker(Flags& f) {
  RETURN_IF_ERROR(CheckOptions(f.worker));  // before the model is loaded
  ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, MakeEngine(f));
  const riskkv::ModelFacts& facts = engine->facts();
  f.worker.log->info("model {} ({}, {} layers), {} cells, {} sequences, {} thread(s)", facts.name,
                     facts.fingerprint.architecture, facts.fingerprint.layout.n_layer, f.cells, f.sequences, f.threads);
  f.worker.backend = BackendOf(f.backend);
  f.worker.manager.warm_up_context = f.warm_up;
  f.worker.readiness.stuck_after = absl::Seconds(f.stuck_after);
  return riskkv::worker::WorkerProcess::Start(f.worker, std::move(engine));
}

// Written under another name first, so that a reader never sees half a file.
bool WritePort(const std::string& path, int port) {
  const std::string temporary = path + ".tmp";
  std::ofstream out(temporary);
  out << port << "\n";
  out.close();
  return out.good() && std::rename(temporary.c_str(), path.c_str()) == 0;
}

int Fail(const std::string& message) {
  fmt::print(stderr, "riskkv-worker: {}\n", message);
  return kConfigError;
}

int Run(Flags& f, const sigset_t& signals) {
  f.worker.log = riskkv::MakeLogger("worker-" + f.worker.id, f.log_level);
  auto process = StartWorker(f);
  if (!process.ok()) return Fail(fmt::format("{}", process.status()));
  if (f.worker.insecure) {
    f.worker.log->warn("--insecure: serving plain text on {}; anybody who reaches it can read and move requests", f.worker.listen);
  }
  if (!f.port_file.empty() && !WritePort(f.port_file, (*process)->port())) {
    return Fail(fmt::format("cannot write --port-file {}", f.port_file));
  }
  f.worker.log->info("boot {} serving on {}, advertised as {}, to clients as {}", (*process)->boot_id(), (*process)->address(),
                     (*process)->advertised(), (*process)->client_address());
  int signal = 0;
  sigwait(&signals, &signal);
  f.worker.log->info("stopping on signal {}", signal);
  (*process)->Shutdown(kShutdown);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // Caches of tens of megabytes come and go with every move: giving them back to the system each time costs page faults on the
  // pause path.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  Flags flags;
  CLI::App app("riskkv worker: one model, its requests, and their moves in and out");
  AddServiceFlags(app, flags);
  AddEngineFlags(app, flags);
  app.footer("Example: riskkv-worker --id a --listen 127.0.0.1:7071 --coordinator 127.0.0.1:7070 --model model.gguf --predictors sets/");
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
  return Run(flags, signals);
}

#include "services/calibrate/engine_factory.h"

#include <algorithm>
#include <thread>

#include "common/base/status.h"
#include "common/engine/fake/fake_engine.h"
#include "common/engine/llama/llama_engine.h"
#include "fmt/format.h"

namespace riskkv::calibrate {

int ResolveThreads(int asked) {
  if (asked > 0) return asked;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16);
}

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const EngineOptions& options, int64_t cells) {
  if (options.kind == "fake") {
    FakeOptions fake;
    fake.n_cells = cells;
    ASSIGN_OR_RETURN(std::unique_ptr<FakeEngine> engine, FakeEngine::Create(fake));
    return std::unique_ptr<Engine>(std::move(engine));
  }
  if (options.kind != "llama") {
    return absl::InvalidArgumentError(fmt::format("unknown engine \"{}\" (llama, fake)", options.kind));
  }
  if (options.model.empty()) return absl::InvalidArgumentError("--model names no GGUF file");
  LlamaOptions llama;
  llama.model_path = options.model;
  llama.n_cells = (cells + 255) / 256 * 256;
  llama.n_sequences = 1;
  llama.threads = ResolveThreads(options.threads);
  ASSIGN_OR_RETURN(std::unique_ptr<LlamaEngine> engine, LlamaEngine::Create(llama));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace riskkv::calibrate

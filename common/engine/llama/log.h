// llama.cpp's log: one callback a process, quiet unless a sink is set; errors are kept for the status they
// belong to.
#ifndef RISKKV_COMMON_ENGINE_LLAMA_LOG_H_
#define RISKKV_COMMON_ENGINE_LLAMA_LOG_H_

#include <functional>
#include <string>
#include <string_view>

namespace riskkv {

enum class LlamaLogLevel { kDebug, kInfo, kWarning, kError };

// Where llama.cpp's lines go from now on (empty: nowhere, the default). Called from any thread, one at a
// time, with the line without its end. Thread-safe.
using LlamaLogSink = std::function<void(LlamaLogLevel level, std::string_view line)>;
void SetLlamaLogSink(LlamaLogSink sink);

// Takes llama.cpp's log away from stderr; done by LlamaEngine::Create. Thread-safe, idempotent.
void CaptureLlamaLog();

// While alive, remembers the errors llama.cpp logs on this thread. Scopes nest: the innermost one gets them.
class LlamaErrorScope {
 public:
  LlamaErrorScope();
  ~LlamaErrorScope();
  LlamaErrorScope(const LlamaErrorScope&) = delete;
  LlamaErrorScope& operator=(const LlamaErrorScope&) = delete;
  // The errors so far, joined by "; "; `fallback` when there were none.
  std::string Text(std::string_view fallback) const;

 private:
  std::string errors_;
  std::string* const outer_;
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_ENGINE_LLAMA_LOG_H_

#include "common/engine/llama/log.h"

#include <mutex>
#include <utility>

#include "common/base/mutex.h"
#include "llama.h"

namespace riskkv {
namespace {

constexpr std::size_t kMaxErrorText = 2048;

struct SinkHolder {
  Mutex mu;
  LlamaLogSink sink ABSL_GUARDED_BY(mu);
};

SinkHolder& Holder() {
  static SinkHolder* holder = new SinkHolder;  // never destroyed: ggml may log while the process ends
  return *holder;
}

// nullptr outside a LlamaErrorScope.
thread_local std::string* thread_errors = nullptr;
thread_local ggml_log_level thread_level = GGML_LOG_LEVEL_INFO;

LlamaLogLevel LevelOf(ggml_log_level level) {
  switch (level) {
    case GGML_LOG_LEVEL_ERROR:
      return LlamaLogLevel::kError;
    case GGML_LOG_LEVEL_WARN:
      return LlamaLogLevel::kWarning;
    case GGML_LOG_LEVEL_INFO:
      return LlamaLogLevel::kInfo;
    default:
      return LlamaLogLevel::kDebug;
  }
}

void KeepError(std::string_view line) {
  if (thread_errors->size() + line.size() > kMaxErrorText) return;
  if (!thread_errors->empty()) *thread_errors += "; ";
  *thread_errors += line;
}

void OnLog(ggml_log_level level, const char* text, void*) {
  // A continued line has the level of the one before it.
  if (level == GGML_LOG_LEVEL_CONT) level = thread_level;
  thread_level = level;
  std::string_view line(text);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (line.empty()) return;
  if (level == GGML_LOG_LEVEL_ERROR && thread_errors != nullptr) KeepError(line);
  SinkHolder& holder = Holder();
  MutexLock lock(holder.mu);
  if (holder.sink) holder.sink(LevelOf(level), line);
}

}  // namespace

void SetLlamaLogSink(LlamaLogSink sink) {
  MutexLock lock(Holder().mu);
  Holder().sink = std::move(sink);
}

void CaptureLlamaLog() {
  static std::once_flag once;
  std::call_once(once, [] { llama_log_set(&OnLog, nullptr); });
}

LlamaErrorScope::LlamaErrorScope() : outer_(thread_errors) { thread_errors = &errors_; }
LlamaErrorScope::~LlamaErrorScope() { thread_errors = outer_; }

std::string LlamaErrorScope::Text(std::string_view fallback) const {
  return errors_.empty() ? std::string(fallback) : errors_;
}

}  // namespace riskkv

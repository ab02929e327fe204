// A GGUF's metadata, checked before llama.cpp (which aborts the process on some damage) sees the file.
#ifndef RISKKV_COMMON_ENGINE_LLAMA_GGUF_FILE_H_
#define RISKKV_COMMON_ENGINE_LLAMA_GGUF_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

struct gguf_context;

namespace riskkv {

// Thread-safe once open.
class GgufFile {
 public:
  // NOT_FOUND when it cannot be read, INVALID_ARGUMENT when it is no GGUF, DATA_LOSS when its header is
  // damaged or a tensor lies beyond its end. Every message names the file.
  static absl::StatusOr<GgufFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  bool Has(const std::string& key) const;
  // nullopt when the key is missing or not of that kind. Numbers are converted from any numeric type.
  std::optional<std::string> String(const std::string& key) const;
  std::optional<double> Number(const std::string& key) const;
  // A number, or an array whose elements are all that number; nullopt also for an array of different ones.
  std::optional<double> UniformNumber(const std::string& key) const;
  bool HasTensor(const std::string& name) const;
  // The values of an F32 tensor. NOT_FOUND, or FAILED_PRECONDITION when it is of another type.
  absl::StatusOr<std::vector<float>> FloatTensor(const std::string& name) const;
  // SHA-256 over everything that decides how text becomes tokens: all keys "tokenizer.ggml.*" by name, type
  // and value (vocabulary, scores, types, merges, special tokens).
  std::string TokenizerDigest() const;

 private:
  struct Free {
    void operator()(gguf_context* context) const;
  };
  GgufFile(std::string path, gguf_context* context) : path_(std::move(path)), context_(context) {}
  absl::Status CheckTensorsWithin(uint64_t file_size) const;
  std::optional<double> NumberAt(int64_t key_id) const;

  std::string path_;
  std::unique_ptr<gguf_context, Free> context_;
};

// SHA-256 of a file, remembered in this process by (path, size, modification time). Thread-safe.
absl::StatusOr<std::string> CachedFileDigest(const std::string& path);

}  // namespace riskkv

#endif  // RISKKV_COMMON_ENGINE_LLAMA_GGUF_FILE_H_

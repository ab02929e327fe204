#include "common/engine/llama/gguf_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>
#include <utility>

#include "common/base/digest.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/engine/llama/log.h"
#include "fmt/format.h"
#include "gguf.h"

namespace riskkv {
namespace {

// Value of any fixed-size numeric GGUF type.
std::optional<double> NumberOf(gguf_type type, const void* data) {
  auto read = [data](auto zero) {
    std::memcpy(&zero, data, sizeof(zero));
    return static_cast<double>(zero);
  };
  switch (type) {
    case GGUF_TYPE_UINT8:
      return read(uint8_t{});
    case GGUF_TYPE_INT8:
      return read(int8_t{});
    case GGUF_TYPE_UINT16:
      return read(uint16_t{});
    case GGUF_TYPE_INT16:
      return read(int16_t{});
    case GGUF_TYPE_UINT32:
      return read(uint32_t{});
    case GGUF_TYPE_INT32:
      return read(int32_t{});
    case GGUF_TYPE_UINT64:
      return read(uint64_t{});
    case GGUF_TYPE_INT64:
      return read(int64_t{});
    case GGUF_TYPE_FLOAT32:
      return read(float{});
    case GGUF_TYPE_FLOAT64:
      return read(double{});
    case GGUF_TYPE_BOOL:
      return read(int8_t{});
    default:
      return std::nullopt;
  }
}

std::size_t SizeOf(gguf_type type) {
  switch (type) {
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_INT8:
    case GGUF_TYPE_BOOL:
      return 1;
    case GGUF_TYPE_UINT16:
    case GGUF_TYPE_INT16:
      return 2;
    case GGUF_TYPE_UINT32:
    case GGUF_TYPE_INT32:
    case GGUF_TYPE_FLOAT32:
      return 4;
    case GGUF_TYPE_UINT64:
    case GGUF_TYPE_INT64:
    case GGUF_TYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

void HashText(Sha256& sha, std::string_view text) {
  sha.Update(fmt::format("{}:", text.size()));
  sha.Update(text);
}

void HashValue(Sha256& sha, const gguf_context* c, int64_t id) {
  const gguf_type type = gguf_get_kv_type(c, id);
  HashText(sha, gguf_type_name(type));
  if (type == GGUF_TYPE_STRING) {
    HashText(sha, gguf_get_val_str(c, id));
  } else if (type != GGUF_TYPE_ARRAY) {
    sha.Update(gguf_get_val_data(c, id), SizeOf(type));
  } else {
    const gguf_type element = gguf_get_arr_type(c, id);
    const std::size_t n = gguf_get_arr_n(c, id);
    HashText(sha, fmt::format("{} {}", gguf_type_name(element), n));
    if (element == GGUF_TYPE_STRING) {
      for (std::size_t i = 0; i < n; ++i) HashText(sha, gguf_get_arr_str(c, id, i));
    } else {
      sha.Update(gguf_get_arr_data(c, id), n * SizeOf(element));
    }
  }
}

absl::Status CheckMagic(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return absl::NotFoundError(fmt::format("model {}: {}", path, error ? error.message() : "not a file"));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(fmt::format("model {}: {}", path, std::strerror(errno)));
  char magic[4] = {};
  in.read(magic, sizeof(magic));
  if (in.gcount() != sizeof(magic) || std::memcmp(magic, "GGUF", sizeof(magic)) != 0) {
    return absl::InvalidArgumentError(fmt::format("model {}: not a GGUF file", path));
  }
  return absl::OkStatus();
}

}  // namespace

void GgufFile::Free::operator()(gguf_context* context) const { gguf_free(context); }

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path) {
  CaptureLlamaLog();
  RETURN_IF_ERROR(CheckMagic(path));
  LlamaErrorScope errors;
  gguf_context* context = gguf_init_from_file(path.c_str(), {/*no_alloc=*/true, /*ctx=*/nullptr});
  if (context == nullptr) {
    return absl::DataLossError(
        fmt::format("model {}: damaged header ({})", path, errors.Text("no reason given")));
  }
  GgufFile file(path, context);
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) return absl::NotFoundError(fmt::format("model {}: {}", path, error.message()));
  RETURN_IF_ERROR(file.CheckTensorsWithin(size));
  return file;
}

absl::Status GgufFile::CheckTensorsWithin(uint64_t file_size) const {
  const uint64_t data = gguf_get_data_offset(context_.get());
  for (int64_t i = 0; i < gguf_get_n_tensors(context_.get()); ++i) {
    const uint64_t begin = gguf_get_tensor_offset(context_.get(), i);
    const uint64_t size = gguf_get_tensor_size(context_.get(), i);
    if (data > file_size || begin > file_size - data || size > file_size - data - begin) {
      return absl::DataLossError(fmt::format("model {}: truncated, tensor {} ends at byte {} of {}", path_,
                                             gguf_get_tensor_name(context_.get(), i), data + begin + size,
                                             file_size));
    }
  }
  return absl::OkStatus();
}

bool GgufFile::Has(const std::string& key) const { return gguf_find_key(context_.get(), key.c_str()) >= 0; }

std::optional<std::string> GgufFile::String(const std::string& key) const {
  const int64_t id = gguf_find_key(context_.get(), key.c_str());
  if (id < 0 || gguf_get_kv_type(context_.get(), id) != GGUF_TYPE_STRING) return std::nullopt;
  return gguf_get_val_str(context_.get(), id);
}

std::optional<double> GgufFile::NumberAt(int64_t id) const {
  const gguf_type type = gguf_get_kv_type(context_.get(), id);
  if (SizeOf(type) == 0) return std::nullopt;
  return NumberOf(type, gguf_get_val_data(context_.get(), id));
}

std::optional<double> GgufFile::Number(const std::string& key) const {
  const int64_t id = gguf_find_key(context_.get(), key.c_str());
  return id < 0 ? std::nullopt : NumberAt(id);
}

std::optional<double> GgufFile::UniformNumber(const std::string& key) const {
  const int64_t id = gguf_find_key(context_.get(), key.c_str());
  if (id < 0) return std::nullopt;
  if (gguf_get_kv_type(context_.get(), id) != GGUF_TYPE_ARRAY) return NumberAt(id);
  const gguf_type type = gguf_get_arr_type(context_.get(), id);
  const std::size_t n = gguf_get_arr_n(context_.get(), id);
  if (SizeOf(type) == 0 || n == 0) return std::nullopt;
  const char* data = static_cast<const char*>(gguf_get_arr_data(context_.get(), id));
  for (std::size_t i = 1; i < n; ++i) {
    if (std::memcmp(data, data + i * SizeOf(type), SizeOf(type)) != 0) return std::nullopt;
  }
  return NumberOf(type, data);
}

bool GgufFile::HasTensor(const std::string& name) const {
  return gguf_find_tensor(context_.get(), name.c_str()) >= 0;
}

absl::StatusOr<std::vector<float>> GgufFile::FloatTensor(const std::string& name) const {
  const int64_t id = gguf_find_tensor(context_.get(), name.c_str());
  if (id < 0) return absl::NotFoundError(fmt::format("model {}: no tensor {}", path_, name));
  if (gguf_get_tensor_type(context_.get(), id) != GGML_TYPE_F32) {
    return absl::FailedPreconditionError(fmt::format("model {}: tensor {} is not F32", path_, name));
  }
  std::vector<float> values(gguf_get_tensor_size(context_.get(), id) / sizeof(float));
  std::ifstream in(path_, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(gguf_get_data_offset(context_.get()) +
                                       gguf_get_tensor_offset(context_.get(), id)));
  in.read(reinterpret_cast<char*>(values.data()),
          static_cast<std::streamsize>(values.size() * sizeof(float)));
  if (!in) return absl::DataLossError(fmt::format("model {}: tensor {} cannot be read", path_, name));
  return values;
}

std::string GgufFile::TokenizerDigest() const {
  std::map<std::string, int64_t> keys;
  for (int64_t i = 0; i < gguf_get_n_kv(context_.get()); ++i) {
    const std::string key = gguf_get_key(context_.get(), i);
    if (key.rfind("tokenizer.ggml.", 0) == 0) keys[key] = i;
  }
  Sha256 sha;
  for (const auto& [key, id] : keys) {
    HashText(sha, key);
    HashValue(sha, context_.get(), id);
  }
  return sha.HexDigest();
}

absl::StatusOr<std::string> CachedFileDigest(const std::string& path) {
  using Key = std::tuple<std::string, int64_t, int64_t, int64_t>;
  static Mutex mu;
  static std::map<Key, std::string>* cache = new std::map<Key, std::string>;
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    return absl::NotFoundError(fmt::format("model {}: {}", path, std::strerror(errno)));
  }
  const Key key(path, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  MutexLock lock(mu);
  if (auto it = cache->find(key); it != cache->end()) return it->second;
  ASSIGN_OR_RETURN(std::string digest, Sha256File(path));
  (*cache)[key] = digest;
  return digest;
}

}  // namespace riskkv

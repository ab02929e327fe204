#include "common/quality/result_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

namespace fs = std::filesystem;

constexpr char kEntrySuffix[] = ".result";
constexpr char kPartSuffix[] = ".part";
constexpr std::size_t kChecksumBytes = 8;

absl::Status StoreWriteError(const std::string& where, int64_t bytes, int error) {
  const std::string message = fmt::format("cannot write {} bytes to {}: {}", bytes, where, std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return MakeError(absl::StatusCode::kResourceExhausted, "DISK_FULL", message);
  return absl::InternalError(message);
}

int64_t TotalBytes(std::span<const std::string_view> parts) {
  int64_t bytes = 0;
  for (std::string_view p : parts) bytes += static_cast<int64_t>(p.size());
  return bytes;
}

// Writes at `offset`; 0 or errno.
int WriteAt(int file, std::string_view bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(n));
    offset += n;
  }
  return 0;
}

bool ReadAt(int file, char* out, std::size_t size, int64_t offset) {
  while (size > 0) {
    const ssize_t n = ::pread(file, out, size, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    out += n;
    size -= static_cast<std::size_t>(n);
    offset += n;
  }
  return true;
}


uint64_t Checksum(std::string_view bytes) { return Xxh3(bytes.data(), bytes.size()); }

void RemoveLeftovers(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == kPartSuffix) fs::remove(entry.path(), error);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<FolderStore>> FolderStore::Open(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder, error))
    return absl::InternalError(fmt::format("cannot make the folder {}: {}", folder, error.message()));
  const std::string lock_path = folder + "/lock";
  const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return absl::InternalError(fmt::format("cannot open {}: {}", lock_path, std::strerror(errno)));
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return absl::FailedPreconditionError(fmt::format("{} is in use by another process", folder));
  }
  RemoveLeftovers(folder);
  return std::unique_ptr<FolderStore>(new FolderStore(folder, lock));
}

FolderStore::~FolderStore() { ::close(lock_); }

absl::Status FolderStore::Put(const std::string& key, std::span<const std::string_view> parts) {
  const std::string path = folder_ + "/" + key + kEntrySuffix, part = folder_ + "/" + key + kPartSuffix;
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return StoreWriteError(part, TotalBytes(parts), errno);
  int64_t at = 0;
  int failed = 0;
  std::vector<uint64_t> sums;
  for (std::string_view p : parts) {
    if (failed == 0) failed = WriteAt(file, p, at);
    at += static_cast<int64_t>(p.size());
    sums.push_back(static_cast<uint64_t>(p.size()));
    sums.push_back(Checksum(p));
  }
  // The trailer: size and checksum of each part, their number, and the checksum of all that.
  sums.push_back(parts.size());
  sums.push_back(Xxh3(sums.data(), sums.size() * sizeof(uint64_t)));
  const std::string_view trailer(reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(uint64_t));
  if (failed == 0) failed = WriteAt(file, trailer, at);
  if (::close(file) != 0 && failed == 0) failed = errno;
  if (failed == 0 && ::rename(part.c_str(), path.c_str()) != 0) failed = errno;
  if (failed == 0) return absl::OkStatus();
  ::unlink(part.c_str());
  return StoreWriteError(path, TotalBytes(parts), failed);
}

absl::StatusOr<std::string> FolderStore::Get(const std::string& key) {
  const std::string path = folder_ + "/" + key + kEntrySuffix;
  const absl::Status missing = absl::NotFoundError(fmt::format("nothing whole at {}", path));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return missing;
  const int64_t size = ::lseek(file, 0, SEEK_END);
  std::string bytes(static_cast<std::size_t>(std::max<int64_t>(0, size)), '\0');
  const bool read = ReadAt(file, bytes.data(), bytes.size(), 0);
  ::close(file);
  uint64_t tail[2] = {};  // parts, checksum of the trailer
  if (!read || bytes.size() < sizeof(tail)) return missing;
  std::memcpy(tail, bytes.data() + bytes.size() - sizeof(tail), sizeof(tail));
  if (tail[0] > bytes.size() / (2 * kChecksumBytes)) return missing;
  const std::size_t trailer = (2 * tail[0] + 2) * kChecksumBytes;
  if (trailer > bytes.size()) return missing;
  const char* sums = bytes.data() + bytes.size() - trailer;
  if (Xxh3(sums, trailer - kChecksumBytes) != tail[1]) return missing;
  std::string_view left(bytes.data(), bytes.size() - trailer);
  for (uint64_t i = 0; i < tail[0]; ++i) {
    uint64_t part[2] = {};  // size, checksum
    std::memcpy(part, sums + i * sizeof(part), sizeof(part));
    if (part[0] > left.size() || Checksum(left.substr(0, part[0])) != part[1]) return missing;
    left.remove_prefix(part[0]);
  }
  if (!left.empty()) return missing;
  bytes.resize(bytes.size() - trailer);
  return bytes;
}

absl::StatusOr<std::unique_ptr<ScratchStore>> ScratchStore::Create(const std::string& parent) {
  std::error_code error;
  const std::string folder = parent.empty() ? fs::temp_directory_path(error).string() : parent;
  std::string name = folder + "/riskkv-scratch-XXXXXX";
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) {
    return absl::InternalError(fmt::format("cannot make a temporary file in {}: {}", folder, std::strerror(errno)));
  }
  ::unlink(name.c_str());
  return std::unique_ptr<ScratchStore>(new ScratchStore(file, folder));
}

ScratchStore::~ScratchStore() { ::close(file_); }

absl::Status ScratchStore::Put(const std::string& key, std::span<const std::string_view> parts) {
  const int64_t size = TotalBytes(parts);
  // Room is used again when the value is no larger.
  Extent& extent = extents_[key];
  if (extent.size < size) extent.at = end_;
  extent.size = size;
  int64_t at = extent.at;
  end_ = std::max(end_, at + size);
  for (std::string_view p : parts) {
    if (const int failed = WriteAt(file_, p, at); failed != 0) {
      extents_.erase(key);
      return StoreWriteError(parent_, size, failed);
    }
    at += static_cast<int64_t>(p.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ScratchStore::Get(const std::string& key) {
  const auto it = extents_.find(key);
  if (it == extents_.end()) return absl::NotFoundError(fmt::format("nothing kept under {}", key));
  std::string bytes(static_cast<std::size_t>(it->second.size), '\0');
  if (!ReadAt(file_, bytes.data(), bytes.size(), it->second.at))
    return absl::DataLossError(fmt::format("the temporary file in {} ends early", parent_));
  return bytes;
}

absl::StatusOr<std::unique_ptr<ResultStore>> OpenResultStore(const std::string& work, const std::string& temp) {
  if (work.empty()) {
    ASSIGN_OR_RETURN(std::unique_ptr<ScratchStore> scratch, ScratchStore::Create(temp));
    return std::unique_ptr<ResultStore>(std::move(scratch));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<FolderStore> folder, FolderStore::Open(work));
  return std::unique_ptr<ResultStore>(std::move(folder));
}

std::string ResultKey(std::string_view kind, std::string_view what) {
  return fmt::format("{}-{}", kind, Sha256Hex(what).substr(0, 32));
}

absl::Status PutCells(ResultStore& store, const std::string& key, const KvLayout& layout, const KvBlock& block) {
  RETURN_IF_ERROR(CheckBlock(layout, block));
  return store.Put(key, std::string_view(reinterpret_cast<const char*>(block.data.data()),
                                         static_cast<std::size_t>(block.bytes())));
}

absl::StatusOr<KvBlock> GetCells(ResultStore& store, const std::string& key, const KvLayout& layout) {
  ASSIGN_OR_RETURN(const std::string bytes, store.Get(key));
  const int64_t size = static_cast<int64_t>(bytes.size());
  if (size % layout.bytes_per_token() != 0) return absl::NotFoundError(fmt::format("{} is not of this layout", key));
  KvBlock block = KvBlock::Make(layout, {0, size / layout.bytes_per_token()}, AllLayers(layout));
  std::memcpy(block.data.data(), bytes.data(), bytes.size());
  return block;
}

absl::Status PutFloats(ResultStore& store, const std::string& key, std::span<const float> values) {
  return store.Put(key, std::string_view(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
}

absl::StatusOr<std::vector<float>> GetFloats(ResultStore& store, const std::string& key, std::size_t count) {
  ASSIGN_OR_RETURN(const std::string bytes, store.Get(key));
  if (bytes.size() != count * sizeof(float))
    return absl::NotFoundError(fmt::format("{} holds {} bytes, wanted {}", key, bytes.size(), count * sizeof(float)));
  std::vector<float> values(count);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace riskkv

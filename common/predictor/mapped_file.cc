#include "common/predictor/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

// Closes the descriptor on every path out.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

absl::Status WriteError(const std::string& path, std::string_view what, std::size_t wanted, int error) {
  const std::string message =
      fmt::format("{} {}: {} ({} bytes wanted)", what, path, std::strerror(error), wanted);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return MakeError(absl::StatusCode::kResourceExhausted, "DISK_FULL", message);
  }
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM || error == EROFS) return absl::PermissionDeniedError(message);
  return absl::InternalError(message);
}

absl::Status WriteAll(int fd, const std::string& path, std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return WriteError(path, "cannot write", bytes.size(), errno);
    done += static_cast<std::size_t>(n);
  }
  // Delayed allocation reports a full disk only here.
  if (::fsync(fd) != 0) return WriteError(path, "cannot flush", bytes.size(), errno);
  return absl::OkStatus();
}

absl::Status WriteTemporary(const std::string& temporary, std::string_view bytes) {
  Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
  if (file.fd < 0) return WriteError(temporary, "cannot create", bytes.size(), errno);
  return WriteAll(file.fd, temporary, bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) {
    const std::string message = fmt::format("cannot read {}: {}", path, std::strerror(errno));
    if (errno == ENOENT || errno == ENOTDIR) return absl::NotFoundError(message);
    return absl::InternalError(message);
  }
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return absl::InternalError(fmt::format("cannot stat {}", path));
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(fmt::format("{} is not a file", path));
  const std::size_t size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return std::unique_ptr<MappedFile>(new MappedFile(nullptr, 0));
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED)
    return absl::InternalError(fmt::format("cannot map {}: {}", path, std::strerror(errno)));
  return std::unique_ptr<MappedFile>(new MappedFile(data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view bytes) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, RandomHex(4));
  absl::Status status = WriteTemporary(temporary, bytes);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = WriteError(path, "cannot replace", bytes.size(), errno);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  Descriptor folder{::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.fd >= 0) ::fsync(folder.fd);
  return absl::OkStatus();
}

}  // namespace riskkv

// A file mapped for reading.
#ifndef RISKKV_COMMON_PREDICTOR_MAPPED_FILE_H_
#define RISKKV_COMMON_PREDICTOR_MAPPED_FILE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace riskkv {

// Immutable once mapped. Predictor files are replaced by rename and never written in place, so a mapping
// stays valid.
class MappedFile {
 public:
  // NOT_FOUND or INTERNAL name the path.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  MappedFile(void* data, std::size_t size) : data_(data), size_(size) {}
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// Writes a file whole or not at all: temporary file in the same folder, fsync, rename, fsync of the folder.
// RESOURCE_EXHAUSTED (DISK_FULL) names the file and the bytes wanted; nothing is left behind on any error.
absl::Status WriteFileAtomically(const std::string& path, std::string_view bytes);

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_MAPPED_FILE_H_

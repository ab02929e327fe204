// Exact caches of windows on disk, so that memory does not grow with their number: 12 MB for 512 tokens of
// SmolLM2.
#ifndef RISKKV_COMMON_QUALITY_CELL_STORE_H_
#define RISKKV_COMMON_QUALITY_CELL_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"

namespace riskkv {

// A private folder, removed with everything in it when destroyed. Not thread-safe.
class CellStore {
 public:
  // `parent` must exist; "" is the system's folder for temporary files.
  static absl::StatusOr<std::unique_ptr<CellStore>> Create(const std::string& parent, const KvLayout& layout);
  ~CellStore();
  CellStore(const CellStore&) = delete;
  CellStore& operator=(const CellStore&) = delete;

  // Cells of all layers from position 0. RESOURCE_EXHAUSTED (DISK_FULL) names the folder.
  absl::Status Put(const std::string& name, const KvBlock& block);
  absl::StatusOr<KvBlock> Get(const std::string& name) const;

 private:
  CellStore(std::string folder, KvLayout layout) : folder_(std::move(folder)), layout_(std::move(layout)) {}
  std::string Path(const std::string& name) const { return folder_ + "/" + name + ".cells"; }
  const std::string folder_;
  const KvLayout layout_;
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_CELL_STORE_H_

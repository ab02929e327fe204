// Exact caches of windows outside memory, so that it does not grow with their number: 12 MB for 512 tokens of
// SmolLM2.
#ifndef RISKKV_COMMON_QUALITY_CELL_STORE_H_
#define RISKKV_COMMON_QUALITY_CELL_STORE_H_

#include <memory>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/quality/result_store.h"

namespace riskkv {

// Caches by name in a ScratchStore: gone with the process. Not thread-safe.
class CellStore {
 public:
  // `parent` must exist; "" is the system's folder for temporary files.
  static absl::StatusOr<std::unique_ptr<CellStore>> Create(const std::string& parent, const KvLayout& layout) {
    ASSIGN_OR_RETURN(std::unique_ptr<ScratchStore> store, ScratchStore::Create(parent));
    return std::unique_ptr<CellStore>(new CellStore(std::move(store), layout));
  }
  // Cells of all layers from position 0. RESOURCE_EXHAUSTED (DISK_FULL) names the folder.
  absl::Status Put(const std::string& name, const KvBlock& block) { return PutCells(*store_, name, layout_, block); }
  absl::StatusOr<KvBlock> Get(const std::string& name) const { return GetCells(*store_, name, layout_); }

 private:
  CellStore(std::unique_ptr<ScratchStore> store, const KvLayout& layout) : store_(std::move(store)), layout_(layout) {}
  const std::unique_ptr<ScratchStore> store_;
  const KvLayout layout_;
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_CELL_STORE_H_

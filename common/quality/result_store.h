// Where a long calculation keeps what it has already computed, by key: exact caches, NLLs, sums of a fit. Keys say everything
// the value depends on (ResultKey), so that a resumed or changed calculation uses what still holds and nothing else.
#ifndef RISKKV_COMMON_QUALITY_RESULT_STORE_H_
#define RISKKV_COMMON_QUALITY_RESULT_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"

namespace riskkv {

// Not thread-safe.
class ResultStore {
 public:
  virtual ~ResultStore() = default;
  // Whether another process can go on from it.
  virtual bool persistent() const = 0;
  // The parts one after the other, whole or not at all; replaces what was there. RESOURCE_EXHAUSTED (DISK_FULL) names the
  // folder and the bytes wanted.
  virtual absl::Status Put(const std::string& key, std::span<const std::string_view> parts) = 0;
  // NOT_FOUND when there is nothing, or nothing whole.
  virtual absl::StatusOr<std::string> Get(const std::string& key) = 0;
  absl::Status Put(const std::string& key, std::string_view bytes) { return Put(key, std::span(&bytes, 1)); }
};

// A folder that outlives the process: one file a key, written beside it and renamed, closed by the XXH3-64 of its bytes. After
// a kill at any moment every file is whole, and left-over temporary files are removed by the next Open. One process at a time:
// FAILED_PRECONDITION when another holds the folder.
class FolderStore : public ResultStore {
 public:
  static absl::StatusOr<std::unique_ptr<FolderStore>> Open(const std::string& folder);
  ~FolderStore() override;
  FolderStore(const FolderStore&) = delete;
  FolderStore& operator=(const FolderStore&) = delete;
  using ResultStore::Put;
  bool persistent() const override { return true; }
  absl::Status Put(const std::string& key, std::span<const std::string_view> parts) override;
  absl::StatusOr<std::string> Get(const std::string& key) override;
  const std::string& folder() const { return folder_; }

 private:
  FolderStore(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  const std::string folder_;
  const int lock_;
};

// A file without a name, gone with the process however it ends. `parent` must exist; "" is the system's folder for temporary
// files.
class ScratchStore : public ResultStore {
 public:
  static absl::StatusOr<std::unique_ptr<ScratchStore>> Create(const std::string& parent);
  ~ScratchStore() override;
  ScratchStore(const ScratchStore&) = delete;
  ScratchStore& operator=(const ScratchStore&) = delete;
  using ResultStore::Put;
  bool persistent() const override { return false; }
  absl::Status Put(const std::string& key, std::span<const std::string_view> parts) override;
  absl::StatusOr<std::string> Get(const std::string& key) override;

 private:
  struct Extent {
    int64_t at = 0, size = 0;
  };
  ScratchStore(int file, std::string parent) : file_(file), parent_(std::move(parent)) {}
  const int file_;
  const std::string parent_;
  int64_t end_ = 0;
  std::map<std::string, Extent> extents_;
};

// A FolderStore at `work`, or a ScratchStore in `temp` when `work` is empty.
absl::StatusOr<std::unique_ptr<ResultStore>> OpenResultStore(const std::string& work, const std::string& temp);

// "<kind>-<first 32 hex digits of the SHA-256 of `what`>": a key that is a file name.
std::string ResultKey(std::string_view kind, std::string_view what);

// Cells of all layers from position 0 under a key. Get: NOT_FOUND also when the size is not a whole number of tokens.
absl::Status PutCells(ResultStore& store, const std::string& key, const KvLayout& layout, const KvBlock& block);
absl::StatusOr<KvBlock> GetCells(ResultStore& store, const std::string& key, const KvLayout& layout);

// Plain numbers under a key; Get: NOT_FOUND unless there are exactly `count`.
absl::Status PutFloats(ResultStore& store, const std::string& key, std::span<const float> values);
absl::StatusOr<std::vector<float>> GetFloats(ResultStore& store, const std::string& key, std::size_t count);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_RESULT_STORE_H_

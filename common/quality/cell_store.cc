#include "common/quality/cell_store.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {
namespace fs = std::filesystem;

absl::StatusOr<std::unique_ptr<CellStore>> CellStore::Create(const std::string& parent,
                                                             const KvLayout& layout) {
  std::error_code error;
  const fs::path base = parent.empty() ? fs::temp_directory_path(error) : fs::path(parent);
  const fs::path folder = base / ("riskkv-cells-" + RandomHex(8));
  if (error || !fs::create_directory(folder, error)) {
    return absl::InternalError(
        fmt::format("cannot make the folder {}: {}", folder.string(), error.message()));
  }
  return std::unique_ptr<CellStore>(new CellStore(folder.string(), layout));
}

CellStore::~CellStore() {
  std::error_code error;
  fs::remove_all(folder_, error);
}

absl::Status CellStore::Put(const std::string& name, const KvBlock& block) {
  RETURN_IF_ERROR(CheckBlock(layout_, block));
  errno = 0;
  std::ofstream out(Path(name), std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(block.data.data()), block.bytes());
  out.close();
  if (out) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted, "DISK_FULL",
      fmt::format("cannot write {} bytes to {}: {}", block.bytes(), Path(name), std::strerror(errno)));
}

absl::StatusOr<KvBlock> CellStore::Get(const std::string& name) const {
  std::ifstream in(Path(name), std::ios::binary | std::ios::ate);
  if (!in) return absl::NotFoundError(fmt::format("no cells at {}", Path(name)));
  const int64_t tokens = static_cast<int64_t>(in.tellg()) / layout_.bytes_per_token();
  KvBlock block = KvBlock::Make(layout_, {0, tokens}, AllLayers(layout_));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(block.data.data()), block.bytes());
  if (!in) return absl::DataLossError(fmt::format("{} ends early", Path(name)));
  return block;
}

}  // namespace riskkv

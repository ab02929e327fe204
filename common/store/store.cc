#include "common/store/store.h"

#include "common/base/status.h"
#include "common/store/memory_store.h"
#include "common/store/sqlite_store.h"
#include "fmt/format.h"

namespace riskkv {

absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& spec) {
  constexpr std::string_view kSqlite = "sqlite:";
  if (spec == "memory") return std::make_unique<MemoryStore>();
  if (spec.rfind(kSqlite, 0) == 0 && spec.size() > kSqlite.size()) {
    SqliteOptions options;
    options.path = spec.substr(kSqlite.size());
    return SqliteStore::Open(options);
  }
  return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
                   fmt::format("store '{}' is neither memory nor sqlite:PATH", spec));
}

absl::Status OwnerNotFound(const std::string& request_id) {
  return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_REQUEST", fmt::format("no owner record of request {}", request_id));
}

absl::Status JobNotFound(const std::string& migration_id) {
  return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_MIGRATION", fmt::format("no migration {}", migration_id));
}

absl::Status RecordChanged(const std::string& what, uint64_t expected, uint64_t found) {
  return MakeError(absl::StatusCode::kAborted, "EPOCH_CONFLICT",
                   fmt::format("{} is at revision {}, expected {}", what, found, expected));
}

}  // namespace riskkv

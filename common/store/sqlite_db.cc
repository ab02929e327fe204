#include "common/store/sqlite_db.h"

#include <sqlite3.h>

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {

int64_t SqlRow::Int(int column) const { return sqlite3_column_int64(statement_, column); }

std::string SqlRow::Text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size);
}

absl::Status SqliteDb::Error(int code, const char* what) const {
  std::string message = fmt::format("sqlite:{}: {}: {} (code {})", path_, what, db_ ? sqlite3_errmsg(db_) : "no connection", code);
  switch (code & 0xff) {
    case SQLITE_FULL:
      return MakeError(absl::StatusCode::kResourceExhausted, "DISK_FULL", message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return MakeError(absl::StatusCode::kUnavailable, "STORE_UNAVAILABLE",
                       fmt::format("sqlite:{} is held by another coordinator ({})", path_, what));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE", message);
    default:
      return MakeError(absl::StatusCode::kUnavailable, "STORE_UNAVAILABLE", message);
  }
}

absl::StatusOr<std::unique_ptr<SqliteDb>> SqliteDb::Open(const std::string& path, int64_t max_pages) {
  std::unique_ptr<SqliteDb> db(new SqliteDb(path));
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  if (int code = sqlite3_open_v2(path.c_str(), &db->db_, flags, nullptr); code != SQLITE_OK) return db->Error(code, "open");
  RETURN_IF_ERROR(db->Configure(max_pages));
  return db;
}

absl::Status SqliteDb::Configure(int64_t max_pages) {
  sqlite3_extended_result_codes(db_, 1);
  // No busy timeout: whoever holds the file holds it for good. EXCLUSIVE before WAL keeps the wal-index in memory, so that no
  // other process can read along; BEGIN EXCLUSIVE takes the lock now and not at the first write.
  RETURN_IF_ERROR(Script("PRAGMA locking_mode=EXCLUSIVE"));
  RETURN_IF_ERROR(Script("PRAGMA journal_mode=WAL"));
  RETURN_IF_ERROR(Script("PRAGMA synchronous=FULL"));
  RETURN_IF_ERROR(Script("BEGIN EXCLUSIVE; COMMIT"));
  if (max_pages > 0) return Script(fmt::format("PRAGMA max_page_count={}", max_pages).c_str());
  return absl::OkStatus();
}

SqliteDb::~SqliteDb() { sqlite3_close_v2(db_); }

absl::Status SqliteDb::Run(const char* sql, absl::Span<const SqlValue> values,
                           const std::function<absl::Status(const SqlRow&)>& on_row) {
  sqlite3_stmt* statement = nullptr;
  if (int code = sqlite3_prepare_v2(db_, sql, -1, &statement, nullptr); code != SQLITE_OK) return Error(code, sql);
  absl::Cleanup finalize = [&] { sqlite3_finalize(statement); };
  for (std::size_t i = 0; i < values.size(); ++i) {
    int at = static_cast<int>(i) + 1;
    int code = std::holds_alternative<int64_t>(values[i])
                   ? sqlite3_bind_int64(statement, at, std::get<int64_t>(values[i]))
                   : sqlite3_bind_text(statement, at, std::get<std::string>(values[i]).data(),
                                       static_cast<int>(std::get<std::string>(values[i]).size()), SQLITE_STATIC);
    if (code != SQLITE_OK) return Error(code, sql);
  }
  for (;;) {
    int code = sqlite3_step(statement);
    if (code == SQLITE_DONE) return absl::OkStatus();
    if (code != SQLITE_ROW) return Error(code, sql);
    if (on_row) RETURN_IF_ERROR(on_row(SqlRow(statement)));
  }
}

absl::Status SqliteDb::Script(const char* sql) {
  int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code, sql);
}

int64_t SqliteDb::Changes() const { return sqlite3_changes64(db_); }

absl::Status SqliteDb::InTransaction(const std::function<absl::Status()>& body) {
  RETURN_IF_ERROR(Script("BEGIN IMMEDIATE"));
  absl::Status status = body();
  if (status.ok()) status = Script("COMMIT");
  // Some errors have rolled back already; then this is an error too, of no interest.
  if (!status.ok() && sqlite3_get_autocommit(db_) == 0) (void)Script("ROLLBACK");
  return status;
}

}  // namespace riskkv

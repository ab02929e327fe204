// A thin cover of one SQLite connection: statements with bound values, result codes as typed errors. Not thread-safe.
#ifndef RISKKV_COMMON_STORE_SQLITE_DB_H_
#define RISKKV_COMMON_STORE_SQLITE_DB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

struct sqlite3;
struct sqlite3_stmt;

namespace riskkv {

using SqlValue = std::variant<int64_t, std::string>;

// One row of a result; valid during the callback only.
class SqlRow {
 public:
  explicit SqlRow(sqlite3_stmt* statement) : statement_(statement) {}
  int64_t Int(int column) const;
  std::string Text(int column) const;

 private:
  sqlite3_stmt* statement_;
};

class SqliteDb {
 public:
  // Takes the exclusive lock. Errors as SqliteStore::Open.
  static absl::StatusOr<std::unique_ptr<SqliteDb>> Open(const std::string& path, int64_t max_pages);
  ~SqliteDb();

  // Runs one statement; `on_row` sees each row and may stop with an error.
  absl::Status Run(const char* sql, absl::Span<const SqlValue> values,
                   const std::function<absl::Status(const SqlRow&)>& on_row = nullptr);
  // Several statements without values.
  absl::Status Script(const char* sql);
  // Rows that the last INSERT, UPDATE or DELETE changed.
  int64_t Changes() const;
  // BEGIN IMMEDIATE, `body`, COMMIT; rolled back when `body` or the commit fails.
  absl::Status InTransaction(const std::function<absl::Status()>& body);

 private:
  explicit SqliteDb(std::string path) : path_(std::move(path)) {}
  absl::Status Error(int code, const char* what) const;
  absl::Status Configure(int64_t max_pages);

  std::string path_;
  sqlite3* db_ = nullptr;
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_STORE_SQLITE_DB_H_

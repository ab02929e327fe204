// The default store: one SQLite file. WAL, synchronous=FULL (a commit is on the disk when it returns), and an exclusive lock held
// for as long as the store is open, so that a second coordinator on the file refuses to start.
//
// Thread-safe: one connection under one mutex. After an I/O error the connection is given up and opened again at the next call;
// if another coordinator took the file meanwhile (its term is higher), every call answers NOT_LEADER.
#ifndef RISKKV_COMMON_STORE_SQLITE_STORE_H_
#define RISKKV_COMMON_STORE_SQLITE_STORE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/store/sqlite_db.h"
#include "common/store/store.h"

namespace riskkv {

struct SqliteOptions {
  std::string path;
  int64_t max_pages = 0;  // of 4 KiB; 0: no limit but the disk's. Tests fill a "disk" with it
};

class SqliteStore : public Store {
 public:
  // Creates the file when it is absent (its folder must exist). UNAVAILABLE (STORE_UNAVAILABLE) naming the file: cannot be opened, or
  // another coordinator holds it; DATA_LOSS: not a database; FAILED_PRECONDITION (PROTOCOL_VERSION): a newer schema.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const SqliteOptions& options);

  uint64_t leader_term() const override { return term_; }
  std::string name() const override { return "sqlite:" + options_.path; }
  absl::StatusOr<OwnerRecord> GetOwner(const std::string& request_id) override;
  absl::StatusOr<JobRecord> GetJob(const std::string& migration_id) override;
  absl::StatusOr<std::vector<JobRecord>> ListJobs(const JobFilter& filter) override;
  absl::StatusOr<Revisions> Commit(const Transaction& transaction) override;
  absl::StatusOr<std::map<std::string, int64_t>> Counters(const std::string& prefix) override;
  absl::StatusOr<int64_t> PruneJobs(absl::Time before, int64_t keep) override;
  absl::StatusOr<std::vector<OwnerRecord>> ListOwners(const std::string& after, int limit) override;
  absl::StatusOr<bool> RemoveOwner(const OwnerRecord& record) override;

 private:
  explicit SqliteStore(SqliteOptions options) : options_(std::move(options)) {}
  absl::Status Prepare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // schema and term
  // The connection, opened again after an I/O error.
  absl::StatusOr<SqliteDb*> Db() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Gives the connection up when `status` says that it can no longer be trusted; passes it on.
  absl::Status Judge(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Revisions> Write(SqliteDb& db, const Transaction& t);

  const SqliteOptions options_;
  uint64_t term_ = 0;
  Mutex mu_;
  std::unique_ptr<SqliteDb> db_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_STORE_SQLITE_STORE_H_

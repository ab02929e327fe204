#include "common/store/sqlite_store.h"

#include <utility>

#include "common/base/status.h"
#include "common/migration/record_json.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

constexpr int64_t kSchema = 1;

// Bodies are the versioned JSON of common/migration; the columns beside them only serve queries and comparisons.
constexpr char kCreate[] = R"(
  CREATE TABLE owners(request_id TEXT PRIMARY KEY, revision INTEGER NOT NULL, body TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE jobs(migration_id TEXT PRIMARY KEY, request_id TEXT NOT NULL, active INTEGER NOT NULL,
                    accepted_ns INTEGER NOT NULL, updated_ns INTEGER NOT NULL, revision INTEGER NOT NULL, body TEXT NOT NULL);
  CREATE INDEX jobs_active ON jobs(active, updated_ns);
  CREATE INDEX jobs_request ON jobs(request_id);
  CREATE INDEX jobs_accepted ON jobs(accepted_ns);
  CREATE TABLE counters(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
  INSERT INTO meta VALUES('term', 0);
)";

int64_t AsInt(uint64_t value) { return static_cast<int64_t>(value); }

absl::StatusOr<int64_t> One(SqliteDb& db, const char* sql, absl::Span<const SqlValue> values, int64_t otherwise) {
  int64_t result = otherwise;
  RETURN_IF_ERROR(db.Run(sql, values, [&](const SqlRow& row) {
    result = row.Int(0);
    return absl::OkStatus();
  }));
  return result;
}

// The revision column is compared in the statement itself: 0 inserts, anything else updates exactly that revision.
absl::Status Swapped(SqliteDb& db, const char* read_revision, const std::string& key, uint64_t expected, const std::string& what) {
  if (db.Changes() == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(int64_t found, One(db, read_revision, {key}, 0));
  return RecordChanged(what, expected, static_cast<uint64_t>(found));
}

absl::Status WriteOwner(SqliteDb& db, const OwnerRecord& owner) {
  std::string body = Serialise(owner);
  if (owner.revision == 0) {
    RETURN_IF_ERROR(db.Run("INSERT INTO owners VALUES(?, 1, ?) ON CONFLICT DO NOTHING", {owner.request_id, body}));
  } else {
    RETURN_IF_ERROR(db.Run("UPDATE owners SET revision = revision + 1, body = ? WHERE request_id = ? AND revision = ?",
                           {body, owner.request_id, AsInt(owner.revision)}));
  }
  return Swapped(db, "SELECT revision FROM owners WHERE request_id = ?", owner.request_id, owner.revision,
                 "owner record of " + owner.request_id);
}

absl::Status WriteJob(SqliteDb& db, const JobRecord& job) {
  const std::string& id = job.spec.migration_id;
  std::string body = Serialise(job);
  int64_t active = IsTerminal(job.state) ? 0 : 1;
  if (job.revision == 0) {
    RETURN_IF_ERROR(db.Run("INSERT INTO jobs VALUES(?, ?, ?, ?, ?, 1, ?) ON CONFLICT DO NOTHING",
                           {id, job.spec.request_id, active, absl::ToUnixNanos(job.accepted_at),
                            absl::ToUnixNanos(job.updated_at), body}));
  } else {
    RETURN_IF_ERROR(db.Run(
        "UPDATE jobs SET active = ?, updated_ns = ?, revision = revision + 1, body = ? WHERE migration_id = ? AND revision = ?",
        {active, absl::ToUnixNanos(job.updated_at), body, id, AsInt(job.revision)}));
  }
  return Swapped(db, "SELECT revision FROM jobs WHERE migration_id = ?", id, job.revision, "job " + id);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const SqliteOptions& options) {
  std::unique_ptr<SqliteStore> store(new SqliteStore(options));
  MutexLock lock(store->mu_);
  ASSIGN_OR_RETURN(store->db_, SqliteDb::Open(options.path, options.max_pages));
  RETURN_IF_ERROR(store->Prepare());
  return store;
}

absl::Status SqliteStore::Prepare() {
  ASSIGN_OR_RETURN(int64_t schema, One(*db_, "PRAGMA user_version", {}, 0));
  if (schema > kSchema) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "PROTOCOL_VERSION",
                     fmt::format("{} has schema {}, this version knows up to {}", name(), schema, kSchema));
  }
  int64_t term = 0;
  RETURN_IF_ERROR(db_->InTransaction([&]() -> absl::Status {
    if (schema == 0) {
      RETURN_IF_ERROR(db_->Script(kCreate));
      RETURN_IF_ERROR(db_->Script(fmt::format("PRAGMA user_version = {}", kSchema).c_str()));
    }
    RETURN_IF_ERROR(db_->Run("UPDATE meta SET value = value + 1 WHERE name = 'term'", {}));
    ASSIGN_OR_RETURN(term, One(*db_, "SELECT value FROM meta WHERE name = 'term'", {}, 0));
    return absl::OkStatus();
  }));
  if (term <= 0) return MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE", name() + " has no leader term");
  term_ = static_cast<uint64_t>(term);
  return absl::OkStatus();
}

absl::StatusOr<SqliteDb*> SqliteStore::Db() {
  if (db_) return db_.get();
  ASSIGN_OR_RETURN(auto db, SqliteDb::Open(options_.path, options_.max_pages));
  ASSIGN_OR_RETURN(int64_t term, One(*db, "SELECT value FROM meta WHERE name = 'term'", {}, 0));
  if (AsInt(term_) != term) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "NOT_LEADER",
                     fmt::format("{} is at term {}, this coordinator at {}: another one took it over", name(), term, term_));
  }
  db_ = std::move(db);
  return db_.get();
}

absl::Status SqliteStore::Judge(absl::Status status) {
  // After a failed write or sync nobody knows what is on the disk: only a new connection, which replays the log, does.
  if (status.code() == absl::StatusCode::kUnavailable) db_.reset();
  return status;
}

absl::StatusOr<OwnerRecord> SqliteStore::GetOwner(const std::string& request_id) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(SqliteDb * db, Db());
  std::optional<OwnerRecord> record;
  RETURN_IF_ERROR(Judge(db->Run("SELECT body, revision FROM owners WHERE request_id = ?", {request_id},
                                [&](const SqlRow& row) -> absl::Status {
                                  ASSIGN_OR_RETURN(record, ParseOwnerRecord(row.Text(0), "owner record of " + request_id));
                                  record->revision = static_cast<uint64_t>(row.Int(1));
                                  return absl::OkStatus();
                                })));
  if (!record) return OwnerNotFound(request_id);
  return *std::move(record);
}

absl::StatusOr<JobRecord> SqliteStore::GetJob(const std::string& migration_id) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(SqliteDb * db, Db());
  std::optional<JobRecord> record;
  RETURN_IF_ERROR(Judge(db->Run("SELECT body, revision FROM jobs WHERE migration_id = ?", {migration_id},
                                [&](const SqlRow& row) -> absl::Status {
                                  ASSIGN_OR_RETURN(record, ParseJobRecord(row.Text(0), "job record " + migration_id));
                                  record->revision = static_cast<uint64_t>(row.Int(1));
                                  return absl::OkStatus();
                                })));
  if (!record) return JobNotFound(migration_id);
  return *std::move(record);
}

absl::StatusOr<std::vector<JobRecord>> SqliteStore::ListJobs(const JobFilter& filter) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(SqliteDb * db, Db());
  std::vector<JobRecord> result;
  std::string sql = "SELECT migration_id, body, revision FROM jobs WHERE active >= ?";
  std::vector<SqlValue> values = {int64_t{filter.active_only ? 1 : 0}};
  if (!filter.request_id.empty()) {
    sql += " AND request_id = ?";
    values.emplace_back(filter.request_id);
  }
  sql += " ORDER BY accepted_ns DESC, migration_id DESC LIMIT ?";
  values.emplace_back(int64_t{filter.limit > 0 ? filter.limit : -1});
  RETURN_IF_ERROR(Judge(db->Run(sql.c_str(), values, [&](const SqlRow& row) -> absl::Status {
    ASSIGN_OR_RETURN(JobRecord record, ParseJobRecord(row.Text(1), "job record " + row.Text(0)));
    record.revision = static_cast<uint64_t>(row.Int(2));
    result.push_back(std::move(record));
    return absl::OkStatus();
  })));
  return result;
}

absl::StatusOr<Revisions> SqliteStore::Commit(const Transaction& t) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(SqliteDb * db, Db());
  absl::StatusOr<Revisions> written = Write(*db, t);
  if (!written.ok()) return Judge(written.status());
  return written;
}

absl::StatusOr<Revisions> SqliteStore::Write(SqliteDb& db, const Transaction& t) {
  RETURN_IF_ERROR(db.InTransaction([&]() -> absl::Status {
    if (t.owner) RETURN_IF_ERROR(WriteOwner(db, *t.owner));
    if (t.job) RETURN_IF_ERROR(WriteJob(db, *t.job));
    for (const auto& [name, amount] : t.add) {
      RETURN_IF_ERROR(db.Run("INSERT INTO counters VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET value = value + ?2",
                             {name, amount}));
    }
    return absl::OkStatus();
  }));
  return Revisions{t.owner ? t.owner->revision + 1 : 0, t.job ? t.job->revision + 1 : 0};
}

absl::StatusOr<std::map<std::string, int64_t>> SqliteStore::Counters(const std::string& prefix) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(SqliteDb * db, Db());
  std::map<std::string, int64_t> result;
  RETURN_IF_ERROR(Judge(db->Run("SELECT name, value FROM counters WHERE substr(name, 1, ?) = ?",
                                {static_cast<int64_t>(prefix.size()), prefix}, [&](const SqlRow& row) {
                                  result[row.Text(0)] = row.Int(1);
                                  return absl::OkStatus();
                                })));
  return result;
}

absl::StatusOr<int64_t> SqliteStore::PruneJobs(absl::Time before, int64_t keep) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(SqliteDb * db, Db());
  RETURN_IF_ERROR(Judge(db->Run(
      "DELETE FROM jobs WHERE active = 0 AND (updated_ns < ? OR migration_id NOT IN "
      "(SELECT migration_id FROM jobs WHERE active = 0 ORDER BY updated_ns DESC LIMIT ?))",
      {absl::ToUnixNanos(before), keep})));
  return db->Changes();
}

absl::StatusOr<std::vector<OwnerRecord>> SqliteStore::ListOwners(const std::string& after, int limit) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(SqliteDb * db, Db());
  std::vector<OwnerRecord> result;
  RETURN_IF_ERROR(Judge(db->Run("SELECT request_id, body, revision FROM owners WHERE request_id > ? ORDER BY request_id LIMIT ?",
                                {after, int64_t{limit}}, [&](const SqlRow& row) -> absl::Status {
                                  ASSIGN_OR_RETURN(OwnerRecord record, ParseOwnerRecord(row.Text(1), "owner record of " + row.Text(0)));
                                  record.revision = static_cast<uint64_t>(row.Int(2));
                                  result.push_back(std::move(record));
                                  return absl::OkStatus();
                                })));
  return result;
}

absl::StatusOr<bool> SqliteStore::RemoveOwner(const OwnerRecord& record) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(SqliteDb * db, Db());
  RETURN_IF_ERROR(Judge(db->Run("DELETE FROM owners WHERE request_id = ?1 AND revision = ?2 AND NOT EXISTS "
                                "(SELECT 1 FROM jobs WHERE request_id = ?1)",
                                {record.request_id, AsInt(record.revision)})));
  return db->Changes() == 1;
}

}  // namespace riskkv

// Where owner records and jobs are kept. One interface; memory for tests, SQLite by default, etcd for several coordinators.
//
// A transaction is a compare-and-swap: each record carries the revision it was read at (0: it must be absent), and the whole
// transaction is refused if any of them changed since. So the owner record and the job's decision change together or not
// at all, and the rules of common/migration/transitions.h, checked on what was read, hold at the moment of the write.
//
// Threading: every method is thread-safe and may block on the disk or the network.
// Errors: NOT_FOUND; ABORTED (EPOCH_CONFLICT) when a compared record changed: read again; RESOURCE_EXHAUSTED (DISK_FULL), nothing
// was written; UNAVAILABLE (STORE_UNAVAILABLE): a transaction may or may not have been written (in etcd: may still be), so only a later
// compare-and-swap of the same records settles it; FAILED_PRECONDITION (NOT_LEADER): another coordinator holds the store; DATA_LOSS (CORRUPT_FILE) naming the record.
#ifndef RISKKV_COMMON_STORE_STORE_H_
#define RISKKV_COMMON_STORE_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/migration/records.h"

namespace riskkv {

struct Transaction {
  std::optional<OwnerRecord> owner;  // written when the stored revision is owner->revision
  std::optional<JobRecord> job;      // the same
  std::map<std::string, int64_t> add;  // counters raised in the same transaction
};

// Revisions of what was written; 0 for what was not part of the transaction. They grow with each write of a record and are never 0, by
// steps that are the store's own.
struct Revisions {
  uint64_t owner = 0;
  uint64_t job = 0;
};

struct JobFilter {
  bool active_only = false;
  std::string request_id;  // empty: any
  int limit = 0;           // 0: all; newest first
};

class Store {
 public:
  virtual ~Store() = default;

  // Raised by one each time a store is opened: a coordinator's term.
  virtual uint64_t leader_term() const = 0;
  // What it is, for messages: "memory", "sqlite:/path", "etcd:host:port".
  virtual std::string name() const = 0;
  // OK while this process may write; NOT_LEADER once another one leads, or may. Asks nobody.
  virtual absl::Status Leading() const { return absl::OkStatus(); }

  virtual absl::StatusOr<OwnerRecord> GetOwner(const std::string& request_id) = 0;
  virtual absl::StatusOr<JobRecord> GetJob(const std::string& migration_id) = 0;
  virtual absl::StatusOr<std::vector<JobRecord>> ListJobs(const JobFilter& filter) = 0;
  virtual absl::StatusOr<Revisions> Commit(const Transaction& transaction) = 0;
  // Counters whose name begins with `prefix`.
  virtual absl::StatusOr<std::map<std::string, int64_t>> Counters(const std::string& prefix) = 0;
  // Removes terminal jobs last updated before `before`, and the oldest terminal ones beyond `keep`. Jobs that are not terminal are
  // never removed. Returns how many went.
  virtual absl::StatusOr<int64_t> PruneJobs(absl::Time before, int64_t keep) = 0;
  // At most `limit` owner records whose request ids come after `after` (empty: from the first), by request id.
  virtual absl::StatusOr<std::vector<OwnerRecord>> ListOwners(const std::string& after, int limit) = 0;
  // Removes the record if it is still at its revision and no job names its request. False: it is, or must be, kept.
  virtual absl::StatusOr<bool> RemoveOwner(const OwnerRecord& record) = 0;
};

// "memory" or "sqlite:PATH", the stores of a single coordinator; etcd is opened by who won the lead (common/net/etcd_client.h).
// INVALID_ARGUMENT for anything else; otherwise as the store's own Open.
absl::StatusOr<std::unique_ptr<Store>> OpenStore(const std::string& spec);

// Errors every store gives in the same way.
absl::Status OwnerNotFound(const std::string& request_id);
absl::Status JobNotFound(const std::string& migration_id);
absl::Status RecordChanged(const std::string& what, uint64_t expected, uint64_t found);

}  // namespace riskkv

#endif  // RISKKV_COMMON_STORE_STORE_H_

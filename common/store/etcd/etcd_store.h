// The store for several coordinators: records in etcd, written by the leader only.
//
// Keys, below a prefix ("riskkv/"); values are the versioned JSON of common/migration, and small JSON objects for the rest:
//   leader                     who leads: {id, address, term}; bound to its lease (leadership.h)
//   term                       how often the lead has changed
//   owners/<request>           owner record
//   jobs/<migration>           job record
//   index/<request>/<migration>  {request, migration, active, accepted_ns, updated_ns} of the job, changed in its transaction
//   counters/<name>            a decimal number
//
// A record's revision is its key's mod revision: it grows, by no fixed step. Every change is one transaction that compares the mod
// revisions of what it writes and, always, that this process still leads in its term. Reads are linearizable.
//
// Beside the errors of store.h: a transaction whose answer did not come is UNAVAILABLE with in_doubt in its detail, and may still happen
// after a read that follows. Since it compares what it changes, whoever writes in between makes it fail.
#ifndef RISKKV_COMMON_STORE_ETCD_ETCD_STORE_H_
#define RISKKV_COMMON_STORE_ETCD_ETCD_STORE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/store/etcd/api.h"
#include "common/store/etcd/leadership.h"
#include "common/store/store.h"

namespace riskkv::etcd {

// Thread-safe.
class EtcdStore : public Store {
 public:
  // `leadership` was won under the same prefix.
  EtcdStore(std::shared_ptr<Api> api, std::unique_ptr<Leadership> leadership, std::string prefix)
      : api_(std::move(api)), leadership_(std::move(leadership)), prefix_(std::move(prefix)) {}

  uint64_t leader_term() const override { return leadership_->term(); }
  std::string name() const override { return api_->name(); }
  absl::Status Leading() const override { return leadership_->Check(); }
  absl::StatusOr<OwnerRecord> GetOwner(const std::string& request_id) override;
  absl::StatusOr<JobRecord> GetJob(const std::string& migration_id) override;
  absl::StatusOr<std::vector<JobRecord>> ListJobs(const JobFilter& filter) override;
  absl::StatusOr<Revisions> Commit(const Transaction& transaction) override;
  absl::StatusOr<std::map<std::string, int64_t>> Counters(const std::string& prefix) override;
  absl::StatusOr<int64_t> PruneJobs(absl::Time before, int64_t keep) override;
  absl::StatusOr<std::vector<OwnerRecord>> ListOwners(const std::string& after, int limit) override;
  absl::StatusOr<bool> RemoveOwner(const OwnerRecord& record) override;

 private:
  // Every key below `key_prefix` at one revision, in pages.
  absl::StatusOr<std::vector<KeyValue>> Scan(const std::string& key_prefix) const;
  absl::StatusOr<TxnReply> Guarded(TxnRequest request) const;
  absl::StatusOr<std::vector<JobRecord>> Fetch(const std::vector<std::string>& migrations, std::size_t from, std::size_t count) const;
  // Adds the counters' compares and puts. What was read serves for one try.
  absl::Status AddCounters(const std::map<std::string, int64_t>& add, TxnRequest& request) const;
  // Why a transaction was refused; OK when only a counter changed meanwhile.
  absl::Status Refused(const Transaction& t, const std::vector<std::vector<KeyValue>>& found);

  const std::shared_ptr<Api> api_;
  const std::unique_ptr<Leadership> leadership_;
  const std::string prefix_;
};

}  // namespace riskkv::etcd

#endif  // RISKKV_COMMON_STORE_ETCD_ETCD_STORE_H_

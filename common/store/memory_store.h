// A store in memory: for tests and for runs whose jobs need not survive the coordinator. Thread-safe.
#ifndef RISKKV_COMMON_STORE_MEMORY_STORE_H_
#define RISKKV_COMMON_STORE_MEMORY_STORE_H_

#include <map>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/store/store.h"

namespace riskkv {

class MemoryStore : public Store {
 public:
  uint64_t leader_term() const override { return 1; }
  std::string name() const override { return "memory"; }
  absl::StatusOr<OwnerRecord> GetOwner(const std::string& request_id) override;
  absl::StatusOr<JobRecord> GetJob(const std::string& migration_id) override;
  absl::StatusOr<std::vector<JobRecord>> ListJobs(const JobFilter& filter) override;
  absl::StatusOr<Revisions> Commit(const Transaction& transaction) override;
  absl::StatusOr<std::map<std::string, int64_t>> Counters(const std::string& prefix) override;
  absl::StatusOr<int64_t> PruneJobs(absl::Time before, int64_t keep) override;
  absl::StatusOr<std::vector<OwnerRecord>> ListOwners(const std::string& after, int limit) override;
  absl::StatusOr<bool> RemoveOwner(const OwnerRecord& record) override;

 private:
  Mutex mu_;
  std::map<std::string, OwnerRecord> owners_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, JobRecord> jobs_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int64_t> counters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_STORE_MEMORY_STORE_H_

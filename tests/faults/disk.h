// The store that outlives coordinators, with its faults, and one coordinator's way to it.
#ifndef RISKKV_TESTS_FAULTS_DISK_H_
#define RISKKV_TESTS_FAULTS_DISK_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/store/memory_store.h"
#include "tests/faults/process.h"
#include "tests/faults/trace.h"

namespace riskkv::faults {

struct Disk {
  MemoryStore store;
  std::atomic<bool> full{false};         // nothing can be written
  std::atomic<bool> unreachable{false};  // nor read
  std::atomic<int> lose_answers{0};      // so many commits are written and answered UNAVAILABLE
  std::atomic<int> opened{0};
  Mutex commit_mu;                       // the trace has the order of the commits
};

class DiskStore : public Store {
 public:
  DiskStore(Disk* disk, ProcessPtr process, Trace* trace)
      : disk_(disk), process_(std::move(process)), trace_(trace), term_(static_cast<uint64_t>(++disk->opened)) {}

  uint64_t leader_term() const override { return term_; }
  std::string name() const override { return "disk"; }
  absl::StatusOr<OwnerRecord> GetOwner(const std::string& id) override {
    RETURN_IF_ERROR(Way());
    return disk_->store.GetOwner(id);
  }
  absl::StatusOr<JobRecord> GetJob(const std::string& id) override {
    RETURN_IF_ERROR(Way());
    return disk_->store.GetJob(id);
  }
  absl::StatusOr<std::vector<JobRecord>> ListJobs(const JobFilter& filter) override {
    RETURN_IF_ERROR(Way());
    return disk_->store.ListJobs(filter);
  }
  absl::StatusOr<Revisions> Commit(const Transaction& t) override {
    RETURN_IF_ERROR(Way());
    if (disk_->full) return MakeError(absl::StatusCode::kResourceExhausted, "DISK_FULL", "no space left on the disk");
    MutexLock lock(disk_->commit_mu);
    if (process_->dead) return Away();
    auto written = disk_->store.Commit(t);
    if (!written.ok()) return written;
    if (t.owner) trace_->Owner(*t.owner, t.job.has_value());
    if (disk_->lose_answers > 0 && disk_->lose_answers.fetch_sub(1) > 0) return Away();
    return written;
  }
  absl::StatusOr<std::map<std::string, int64_t>> Counters(const std::string& prefix) override {
    RETURN_IF_ERROR(Way());
    return disk_->store.Counters(prefix);
  }
  absl::StatusOr<int64_t> PruneJobs(absl::Time before, int64_t keep) override {
    RETURN_IF_ERROR(Way());
    return disk_->store.PruneJobs(before, keep);
  }
  absl::StatusOr<std::vector<OwnerRecord>> ListOwners(const std::string& after, int limit) override {
    RETURN_IF_ERROR(Way());
    return disk_->store.ListOwners(after, limit);
  }
  absl::StatusOr<bool> RemoveOwner(const OwnerRecord& record) override {
    RETURN_IF_ERROR(Way());
    return disk_->store.RemoveOwner(record);
  }

 private:
  static absl::Status Away() { return MakeError(absl::StatusCode::kUnavailable, "STORE_UNAVAILABLE", "the store is away"); }
  absl::Status Way() const {
    process_->Stand();
    return process_->dead || disk_->unreachable ? Away() : absl::OkStatus();
  }

  Disk* const disk_;
  const ProcessPtr process_;
  Trace* const trace_;
  const uint64_t term_;
};

}  // namespace riskkv::faults

#endif  // RISKKV_TESTS_FAULTS_DISK_H_

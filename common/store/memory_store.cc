#include "common/store/memory_store.h"

#include <algorithm>

namespace riskkv {
namespace {

// Newest first, as the SQLite store's index gives them.
bool Newer(const JobRecord& a, const JobRecord& b) {
  if (a.accepted_at != b.accepted_at) return a.accepted_at > b.accepted_at;
  return a.spec.migration_id > b.spec.migration_id;
}

template <typename Map>
uint64_t RevisionIn(const Map& map, const std::string& key) {
  auto it = map.find(key);
  return it == map.end() ? 0 : it->second.revision;
}

}  // namespace

absl::StatusOr<OwnerRecord> MemoryStore::GetOwner(const std::string& request_id) {
  MutexLock lock(mu_);
  auto it = owners_.find(request_id);
  if (it == owners_.end()) return OwnerNotFound(request_id);
  return it->second;
}

absl::StatusOr<JobRecord> MemoryStore::GetJob(const std::string& migration_id) {
  MutexLock lock(mu_);
  auto it = jobs_.find(migration_id);
  if (it == jobs_.end()) return JobNotFound(migration_id);
  return it->second;
}

absl::StatusOr<std::vector<JobRecord>> MemoryStore::ListJobs(const JobFilter& filter) {
  std::vector<JobRecord> result;
  {
    MutexLock lock(mu_);
    for (const auto& [id, job] : jobs_) {
      if (filter.active_only && IsTerminal(job.state)) continue;
      if (!filter.request_id.empty() && job.spec.request_id != filter.request_id) continue;
      result.push_back(job);
    }
  }
  std::sort(result.begin(), result.end(), Newer);
  if (filter.limit > 0 && result.size() > static_cast<std::size_t>(filter.limit)) result.resize(filter.limit);
  return result;
}

absl::StatusOr<Revisions> MemoryStore::Commit(const Transaction& t) {
  MutexLock lock(mu_);
  if (t.owner) {
    uint64_t found = RevisionIn(owners_, t.owner->request_id);
    if (found != t.owner->revision) return RecordChanged("owner record of " + t.owner->request_id, t.owner->revision, found);
  }
  if (t.job) {
    uint64_t found = RevisionIn(jobs_, t.job->spec.migration_id);
    if (found != t.job->revision) return RecordChanged("job " + t.job->spec.migration_id, t.job->revision, found);
  }
  Revisions revisions;
  if (t.owner) {
    revisions.owner = t.owner->revision + 1;
    OwnerRecord& stored = owners_[t.owner->request_id];
    stored = *t.owner;
    stored.revision = revisions.owner;
  }
  if (t.job) {
    revisions.job = t.job->revision + 1;
    JobRecord& stored = jobs_[t.job->spec.migration_id];
    stored = *t.job;
    stored.revision = revisions.job;
  }
  for (const auto& [name, amount] : t.add) counters_[name] += amount;
  return revisions;
}

absl::StatusOr<std::map<std::string, int64_t>> MemoryStore::Counters(const std::string& prefix) {
  MutexLock lock(mu_);
  std::map<std::string, int64_t> result;
  for (auto it = counters_.lower_bound(prefix); it != counters_.end() && it->first.rfind(prefix, 0) == 0; ++it) {
    result.insert(*it);
  }
  return result;
}

absl::StatusOr<int64_t> MemoryStore::PruneJobs(absl::Time before, int64_t keep) {
  MutexLock lock(mu_);
  std::vector<const JobRecord*> terminal;
  for (const auto& [id, job] : jobs_) {
    if (IsTerminal(job.state)) terminal.push_back(&job);
  }
  std::sort(terminal.begin(), terminal.end(),
            [](const JobRecord* a, const JobRecord* b) { return a->updated_at > b->updated_at; });
  int64_t removed = 0;
  for (std::size_t i = 0; i < terminal.size(); ++i) {
    if (terminal[i]->updated_at >= before && static_cast<int64_t>(i) < keep) continue;
    jobs_.erase(std::string(terminal[i]->spec.migration_id));
    ++removed;
  }
  return removed;
}

absl::StatusOr<std::vector<OwnerRecord>> MemoryStore::ListOwners(const std::string& after, int limit) {
  MutexLock lock(mu_);
  std::vector<OwnerRecord> result;
  for (auto it = owners_.upper_bound(after); it != owners_.end() && result.size() < static_cast<std::size_t>(limit); ++it) {
    result.push_back(it->second);
  }
  return result;
}

absl::StatusOr<bool> MemoryStore::RemoveOwner(const OwnerRecord& record) {
  MutexLock lock(mu_);
  if (record.revision == 0 || RevisionIn(owners_, record.request_id) != record.revision) return false;
  for (const auto& [id, job] : jobs_) {
    if (job.spec.request_id == record.request_id) return false;
  }
  return owners_.erase(record.request_id) > 0;
}

}  // namespace riskkv

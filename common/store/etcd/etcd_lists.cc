// Lists, from the small index entries, and what is removed.
#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/migration/record_json.h"
#include "common/store/etcd/etcd_store.h"
#include "common/store/etcd/job_index.h"
#include "common/store/etcd/keys.h"

namespace riskkv::etcd {
namespace {

constexpr int64_t kPage = 1000;          // keys a read
constexpr std::size_t kBodies = 32;      // job records a read
constexpr std::size_t kRemovals = kMostTxnOps / 2;

bool NewerIndex(const JobIndex& a, const JobIndex& b) {
  return a.accepted_ns != b.accepted_ns ? a.accepted_ns > b.accepted_ns : a.migration > b.migration;
}

}  // namespace

absl::StatusOr<std::vector<KeyValue>> EtcdStore::Scan(const std::string& key_prefix) const {
  RETURN_IF_ERROR(leadership_->Check());
  std::vector<KeyValue> all;
  RangeQuery query{.key = key_prefix, .range_end = PrefixEnd(key_prefix), .limit = kPage};
  for (;;) {
    ASSIGN_OR_RETURN(RangeReply page, api_->Range(query));
    std::move(page.kvs.begin(), page.kvs.end(), std::back_inserter(all));
    if (!page.more || all.empty()) return all;
    query.revision = page.revision;
    query.key = all.back().key + '\0';
  }
}

absl::StatusOr<std::vector<JobRecord>> EtcdStore::Fetch(const std::vector<std::string>& migrations, std::size_t from,
                                                        std::size_t count) const {
  TxnRequest read;
  for (std::size_t i = from; i < from + count; ++i) {
    read.success.push_back({.kind = Op::Kind::kRange, .key = JobKey(prefix_, migrations[i])});
  }
  ASSIGN_OR_RETURN(TxnReply reply, api_->Txn(read));
  std::vector<JobRecord> jobs;
  for (std::size_t i = 0; i < reply.found.size(); ++i) {
    if (reply.found[i].empty()) continue;  // removed since the index was read
    ASSIGN_OR_RETURN(JobRecord job, ParseJobRecord(reply.found[i][0].value, "job record " + migrations[from + i]));
    job.revision = static_cast<uint64_t>(reply.found[i][0].mod_revision);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

absl::StatusOr<std::vector<JobRecord>> EtcdStore::ListJobs(const JobFilter& filter) {
  ASSIGN_OR_RETURN(std::vector<KeyValue> kvs, Scan(filter.request_id.empty() ? IndexFolder(prefix_) : IndexFolder(prefix_, filter.request_id)));
  std::vector<JobIndex> entries;
  for (const KeyValue& kv : kvs) {
    ASSIGN_OR_RETURN(JobIndex entry, ParseIndex(kv));
    if (filter.active_only && !entry.active) continue;
    if (!filter.request_id.empty() && entry.request != filter.request_id) continue;
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), NewerIndex);
  std::vector<std::string> migrations;
  for (JobIndex& entry : entries) migrations.push_back(std::move(entry.migration));
  const std::size_t limit = filter.limit > 0 ? static_cast<std::size_t>(filter.limit) : migrations.size();
  std::vector<JobRecord> result;
  for (std::size_t at = 0; at < migrations.size() && result.size() < limit; at += kBodies) {
    ASSIGN_OR_RETURN(std::vector<JobRecord> jobs, Fetch(migrations, at, std::min(kBodies, migrations.size() - at)));
    for (JobRecord& job : jobs) {
      if (result.size() == limit) break;
      if (!filter.active_only || !IsTerminal(job.state)) result.push_back(std::move(job));
    }
  }
  return result;
}

absl::StatusOr<int64_t> EtcdStore::PruneJobs(absl::Time before, int64_t keep) {
  ASSIGN_OR_RETURN(std::vector<KeyValue> kvs, Scan(IndexFolder(prefix_)));
  std::vector<std::pair<JobIndex, std::string>> terminal;  // with its key
  for (const KeyValue& kv : kvs) {
    ASSIGN_OR_RETURN(JobIndex entry, ParseIndex(kv));
    if (!entry.active) terminal.emplace_back(std::move(entry), kv.key);
  }
  std::sort(terminal.begin(), terminal.end(), [](const auto& a, const auto& b) { return a.first.updated_ns > b.first.updated_ns; });
  const int64_t oldest = absl::ToUnixNanos(before);
  std::vector<std::pair<std::string, std::string>> going;  // index key, job key
  for (std::size_t i = 0; i < terminal.size(); ++i) {
    const JobIndex& entry = terminal[i].first;
    if (entry.updated_ns >= oldest && static_cast<int64_t>(i) < keep) continue;
    going.emplace_back(terminal[i].second, JobKey(prefix_, entry.migration));
  }
  for (std::size_t at = 0; at < going.size(); at += kRemovals) {
    TxnRequest remove;
    for (std::size_t i = at; i < std::min(at + kRemovals, going.size()); ++i) {
      remove.success.push_back({.kind = Op::Kind::kDelete, .key = going[i].first});
      remove.success.push_back({.kind = Op::Kind::kDelete, .key = going[i].second});
    }
    ASSIGN_OR_RETURN(TxnReply reply, Guarded(std::move(remove)));
    // A terminal record never changes: only a lost lead refuses this.
    if (!reply.succeeded) RETURN_IF_ERROR(leadership_->Judge(reply.found));
  }
  return static_cast<int64_t>(going.size());
}

absl::StatusOr<std::vector<OwnerRecord>> EtcdStore::ListOwners(const std::string& after, int limit) {
  RETURN_IF_ERROR(leadership_->Check());
  const std::string folder = OwnerKey(prefix_, "");
  RangeQuery query{.key = after.empty() ? folder : folder + after + '\0', .range_end = PrefixEnd(folder), .limit = limit};
  ASSIGN_OR_RETURN(RangeReply page, api_->Range(query));
  std::vector<OwnerRecord> owners;
  for (const KeyValue& kv : page.kvs) {
    ASSIGN_OR_RETURN(OwnerRecord record, ParseOwnerRecord(kv.value, "owner record of " + kv.key.substr(folder.size())));
    record.revision = static_cast<uint64_t>(kv.mod_revision);
    owners.push_back(std::move(record));
  }
  return owners;
}

absl::StatusOr<bool> EtcdStore::RemoveOwner(const OwnerRecord& record) {
  const std::string key = OwnerKey(prefix_, record.request_id);
  const std::string jobs = IndexFolder(prefix_, record.request_id);
  TxnRequest remove;
  remove.compares = {{.target = Compare::Target::kModRevision, .key = key, .revision = static_cast<int64_t>(record.revision)},
                     {.target = Compare::Target::kCreateRevision, .key = jobs, .range_end = PrefixEnd(jobs), .revision = 0}};
  remove.success = {{.kind = Op::Kind::kDelete, .key = key}};
  ASSIGN_OR_RETURN(TxnReply reply, Guarded(std::move(remove)));
  if (!reply.succeeded) RETURN_IF_ERROR(leadership_->Judge(reply.found));
  return reply.succeeded;
}

}  // namespace riskkv::etcd

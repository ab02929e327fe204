// Records one by one. Lists and pruning are in etcd_lists.cc.
#include "common/store/etcd/etcd_store.h"

#include <charconv>
#include <utility>

#include "common/base/status.h"
#include "common/migration/record_json.h"
#include "common/store/etcd/job_index.h"
#include "common/store/etcd/keys.h"
#include "fmt/format.h"

namespace riskkv::etcd {
namespace {

constexpr int kCounterTries = 8;

uint64_t AsRevision(const std::vector<KeyValue>& kvs) { return kvs.empty() ? 0 : static_cast<uint64_t>(kvs[0].mod_revision); }

absl::StatusOr<int64_t> ParseCounter(const KeyValue& kv) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(kv.value.data(), kv.value.data() + kv.value.size(), value);
  if (error == std::errc() && end == kv.value.data() + kv.value.size()) return value;
  return MakeError(absl::StatusCode::kDataLoss, "CORRUPT_FILE", fmt::format("etcd key {} holds '{}', no number", kv.key, kv.value));
}

void Swap(TxnRequest& request, const std::string& key, uint64_t revision, std::string value) {
  request.compares.push_back({.target = Compare::Target::kModRevision, .key = key, .revision = static_cast<int64_t>(revision)});
  request.success.push_back({.key = key, .value = std::move(value)});
  request.failure.push_back({.kind = Op::Kind::kRange, .key = key});
}

}  // namespace

absl::StatusOr<OwnerRecord> EtcdStore::GetOwner(const std::string& request_id) {
  RETURN_IF_ERROR(leadership_->Check());
  ASSIGN_OR_RETURN(RangeReply read, api_->Range({.key = OwnerKey(prefix_, request_id)}));
  if (read.kvs.empty()) return OwnerNotFound(request_id);
  ASSIGN_OR_RETURN(OwnerRecord record, ParseOwnerRecord(read.kvs[0].value, "owner record of " + request_id));
  record.revision = AsRevision(read.kvs);
  return record;
}

absl::StatusOr<JobRecord> EtcdStore::GetJob(const std::string& migration_id) {
  RETURN_IF_ERROR(leadership_->Check());
  ASSIGN_OR_RETURN(RangeReply read, api_->Range({.key = JobKey(prefix_, migration_id)}));
  if (read.kvs.empty()) return JobNotFound(migration_id);
  ASSIGN_OR_RETURN(JobRecord record, ParseJobRecord(read.kvs[0].value, "job record " + migration_id));
  record.revision = AsRevision(read.kvs);
  return record;
}

absl::StatusOr<TxnReply> EtcdStore::Guarded(TxnRequest request) const {
  RETURN_IF_ERROR(leadership_->Check());
  leadership_->Guard(request);
  return api_->Txn(request);
}

absl::Status EtcdStore::AddCounters(const std::map<std::string, int64_t>& add, TxnRequest& request) const {
  for (const auto& [name, amount] : add) {
    const std::string key = CounterKey(prefix_, name);
    ASSIGN_OR_RETURN(RangeReply read, api_->Range({.key = key}));
    int64_t value = 0;
    if (!read.kvs.empty()) {
      ASSIGN_OR_RETURN(value, ParseCounter(read.kvs[0]));
    }
    Swap(request, key, AsRevision(read.kvs), fmt::format("{}", value + amount));
  }
  return absl::OkStatus();
}

absl::Status EtcdStore::Refused(const Transaction& t, const std::vector<std::vector<KeyValue>>& found) {
  RETURN_IF_ERROR(leadership_->Judge(found));
  std::size_t at = 2;  // after the two reads of the guard
  if (t.owner) {
    const uint64_t is = AsRevision(found.at(at++));
    if (is != t.owner->revision) return RecordChanged("owner record of " + t.owner->request_id, t.owner->revision, is);
  }
  if (t.job) {
    const uint64_t is = AsRevision(found.at(at++));
    if (is != t.job->revision) return RecordChanged("job " + t.job->spec.migration_id, t.job->revision, is);
  }
  return absl::OkStatus();
}

absl::StatusOr<Revisions> EtcdStore::Commit(const Transaction& t) {
  for (int i = 0; i < kCounterTries; ++i) {
    RETURN_IF_ERROR(leadership_->Check());
    TxnRequest request;
    if (t.owner) Swap(request, OwnerKey(prefix_, t.owner->request_id), t.owner->revision, riskkv::Serialise(*t.owner));
    if (t.job) {
      Swap(request, JobKey(prefix_, t.job->spec.migration_id), t.job->revision, riskkv::Serialise(*t.job));
      const JobIndex index = IndexOf(*t.job);
      request.success.push_back({.key = IndexKey(prefix_, index.request, index.migration), .value = Serialise(index)});
    }
    RETURN_IF_ERROR(AddCounters(t.add, request));
    ASSIGN_OR_RETURN(TxnReply reply, Guarded(std::move(request)));
    if (reply.succeeded) {
      const uint64_t revision = static_cast<uint64_t>(reply.revision);
      return Revisions{t.owner ? revision : 0, t.job ? revision : 0};
    }
    RETURN_IF_ERROR(Refused(t, reply.found));
  }
  return MakeError(absl::StatusCode::kAborted, "EPOCH_CONFLICT", fmt::format("{}: counters change too often", name()));
}

absl::StatusOr<std::map<std::string, int64_t>> EtcdStore::Counters(const std::string& prefix) {
  const std::string folder = CounterKey(prefix_, "");
  ASSIGN_OR_RETURN(std::vector<KeyValue> kvs, Scan(folder + prefix));
  std::map<std::string, int64_t> result;
  for (const KeyValue& kv : kvs) {
    ASSIGN_OR_RETURN(result[kv.key.substr(folder.size())], ParseCounter(kv));
  }
  return result;
}

}  // namespace riskkv::etcd

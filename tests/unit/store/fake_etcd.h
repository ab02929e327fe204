// etcd in memory: one member, the semantics that the store relies on, and the failures that tests want. Thread-safe.
#ifndef RISKKV_TESTS_UNIT_STORE_FAKE_ETCD_H_
#define RISKKV_TESTS_UNIT_STORE_FAKE_ETCD_H_

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/store/etcd/api.h"

namespace riskkv::testing {

class FakeEtcd : public etcd::Api {
 public:
  explicit FakeEtcd(const Clock* clock) : clock_(clock) {}
  std::atomic<bool> down{false};         // nothing is answered, nothing is done
  std::atomic<bool> lose_answer{false};  // the next transaction is done, and answered UNAVAILABLE
  std::atomic<bool> hold_next{false};    // the next transaction is answered UNAVAILABLE, and done by ReleaseHeld

  std::string name() const override { return "etcd:fake"; }
  absl::StatusOr<etcd::RangeReply> Range(const etcd::RangeQuery& query) override {
    MutexLock lock(mu_);
    if (down) return Down(false);
    Expire();
    etcd::RangeReply reply{.revision = revision_};
    // A snapshot of an older revision is the store as it is, unless somebody wrote meanwhile; no test does.
    for (const auto& [key, kv] : kvs_) {
      if (!In(key, query.key, query.range_end)) continue;
      if (query.limit > 0 && static_cast<int64_t>(reply.kvs.size()) == query.limit) {
        reply.more = true;
        break;
      }
      reply.kvs.push_back(kv);
    }
    return reply;
  }
  absl::StatusOr<etcd::TxnReply> Txn(const etcd::TxnRequest& request) override {
    MutexLock lock(mu_);
    if (down) return Down(true);
    if (hold_next.exchange(false)) {
      held_.push_back(request);
      return Down(true);
    }
    etcd::TxnReply reply = Apply(request);
    if (lose_answer.exchange(false)) return Down(true);
    return reply;
  }
  absl::StatusOr<etcd::LeaseGrant> Grant(absl::Duration ttl) override {
    MutexLock lock(mu_);
    if (down) return Down(false);
    leases_[++last_lease_] = {clock_->Monotonic() + ttl, ttl};
    return etcd::LeaseGrant{last_lease_, ttl};
  }
  absl::StatusOr<absl::Duration> KeepAlive(int64_t lease) override {
    MutexLock lock(mu_);
    if (down) return Down(false);
    Expire();
    auto it = leases_.find(lease);
    if (it == leases_.end()) return absl::ZeroDuration();
    it->second.until = clock_->Monotonic() + it->second.ttl;
    return it->second.ttl;
  }
  absl::Status Revoke(int64_t lease) override {
    MutexLock lock(mu_);
    if (down) return Down(false);
    Drop(lease);
    return absl::OkStatus();
  }
  // What was sent before and comes only now: whether it did anything.
  bool ReleaseHeld() {
    MutexLock lock(mu_);
    bool done = false;
    for (const etcd::TxnRequest& request : held_) done |= Apply(request).succeeded;
    held_.clear();
    return done;
  }

 private:
  struct Lease {
    absl::Duration until;
    absl::Duration ttl;
    std::set<std::string> keys;
  };
  static absl::Status Down(bool in_doubt) {
    absl::Status status = MakeError(absl::StatusCode::kUnavailable, "STORE_UNAVAILABLE", "etcd:fake is down");
    ErrorDetail detail = *GetDetail(status);
    detail.in_doubt = in_doubt;
    SetDetail(status, detail);
    return status;
  }
  static bool In(const std::string& key, const std::string& from, const std::string& end) {
    return end.empty() ? key == from : key >= from && key < end;
  }
  void Drop(int64_t lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    auto it = leases_.find(lease);
    if (it == leases_.end()) return;
    ++revision_;
    for (const std::string& key : it->second.keys) kvs_.erase(key);
    leases_.erase(it);
  }
  void Expire() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::vector<int64_t> gone;
    for (const auto& [id, lease] : leases_) {
      if (lease.until <= clock_->Monotonic()) gone.push_back(id);
    }
    for (int64_t id : gone) Drop(id);
  }
  static bool Holds(const etcd::Compare& compare, const etcd::KeyValue* kv) {
    switch (compare.target) {
      case etcd::Compare::Target::kCreateRevision:
        return (kv == nullptr ? 0 : kv->create_revision) == compare.revision;
      case etcd::Compare::Target::kModRevision:
        return (kv == nullptr ? 0 : kv->mod_revision) == compare.revision;
      case etcd::Compare::Target::kValue:
        return kv != nullptr && kv->value == compare.value;
    }
    return false;
  }
  bool Holds(const etcd::Compare& compare) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    bool any = false;
    for (const auto& [key, kv] : kvs_) {
      if (!In(key, compare.key, compare.range_end)) continue;
      any = true;
      if (!Holds(compare, &kv)) return false;
    }
    return any || Holds(compare, nullptr);
  }
  etcd::TxnReply Apply(const etcd::TxnRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    Expire();
    etcd::TxnReply reply{.succeeded = true};
    for (const etcd::Compare& compare : request.compares) reply.succeeded &= Holds(compare);
    const std::vector<etcd::Op>& ops = reply.succeeded ? request.success : request.failure;
    bool writes = false;
    for (const etcd::Op& op : ops) writes |= op.kind != etcd::Op::Kind::kRange;
    if (writes) ++revision_;
    for (const etcd::Op& op : ops) reply.found.push_back(Do(op));
    reply.revision = revision_;
    return reply;
  }
  std::vector<etcd::KeyValue> Do(const etcd::Op& op) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    auto it = kvs_.find(op.key);
    switch (op.kind) {
      case etcd::Op::Kind::kRange:
        return it == kvs_.end() ? std::vector<etcd::KeyValue>() : std::vector<etcd::KeyValue>{it->second};
      case etcd::Op::Kind::kDelete:
        kvs_.erase(op.key);
        return {};
      case etcd::Op::Kind::kPut:
        const int64_t created = it == kvs_.end() ? revision_ : it->second.create_revision;
        kvs_[op.key] = {.key = op.key, .value = op.value, .create_revision = created, .mod_revision = revision_};
        if (op.lease != 0) leases_[op.lease].keys.insert(op.key);
    }
    return {};
  }

  const Clock* const clock_;
  Mutex mu_;
  int64_t revision_ ABSL_GUARDED_BY(mu_) = 1;
  int64_t last_lease_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, etcd::KeyValue> kvs_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, Lease> leases_ ABSL_GUARDED_BY(mu_);
  std::vector<etcd::TxnRequest> held_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv::testing

#endif  // RISKKV_TESTS_UNIT_STORE_FAKE_ETCD_H_

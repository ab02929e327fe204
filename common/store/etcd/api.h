// What the etcd store asks of etcd, without gRPC: a small part of the v3 API as plain data. common/net/etcd_client.h is the real one.
#ifndef RISKKV_COMMON_STORE_ETCD_API_H_
#define RISKKV_COMMON_STORE_ETCD_API_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace riskkv::etcd {

struct KeyValue {
  std::string key;
  std::string value;
  int64_t create_revision = 0;
  int64_t mod_revision = 0;
};

// All keys in [key, range_end); only `key` when range_end is empty. Linearizable.
struct RangeQuery {
  std::string key;
  std::string range_end;
  int64_t limit = 0;     // 0: all
  int64_t revision = 0;  // 0: now; else the store as it was at that revision
};

struct RangeReply {
  std::vector<KeyValue> kvs;  // by key
  bool more = false;          // there are keys beyond the limit
  int64_t revision = 0;       // of the store when it was read
};

// One condition of a transaction. A key that is not there has create and mod revision 0, and no value equals it. With range_end it must
// hold for every key of the range, or, when there is none, for a key that is not there.
struct Compare {
  enum class Target { kCreateRevision, kModRevision, kValue };
  Target target = Target::kModRevision;
  std::string key;
  std::string range_end;
  int64_t revision = 0;
  std::string value;
};

struct Op {
  enum class Kind { kPut, kDelete, kRange };
  Kind kind = Kind::kPut;
  std::string key;
  std::string value;  // of a put
  int64_t lease = 0;  // of a put; 0: none
};

// `success` when every comparison holds, `failure` otherwise, all of it at one revision. etcd takes at most 128 of each by default.
struct TxnRequest {
  std::vector<Compare> compares;
  std::vector<Op> success;
  std::vector<Op> failure;
};

struct TxnReply {
  bool succeeded = false;
  int64_t revision = 0;                      // of the store after it: the mod revision of what was put
  std::vector<std::vector<KeyValue>> found;  // one entry for each operation that was carried out; empty but for ranges
};

struct LeaseGrant {
  int64_t id = 0;
  absl::Duration ttl;  // what the server gave, which may be more than was asked
};

inline constexpr std::size_t kMostTxnOps = 120;

// Thread-safe. Every call ends within a bounded time.
// Errors: UNAVAILABLE (STORE_UNAVAILABLE) when etcd did not answer; for a transaction the detail says in_doubt, since it may still be
// carried out, even later than a read that comes after it. RESOURCE_EXHAUSTED (DISK_FULL): definitely not carried out.
class Api {
 public:
  virtual ~Api() = default;
  // For messages: "etcd:127.0.0.1:2379".
  virtual std::string name() const = 0;
  virtual absl::StatusOr<RangeReply> Range(const RangeQuery& query) = 0;
  virtual absl::StatusOr<TxnReply> Txn(const TxnRequest& request) = 0;
  virtual absl::StatusOr<LeaseGrant> Grant(absl::Duration ttl) = 0;
  // The time to live from now on; zero when the lease has expired.
  virtual absl::StatusOr<absl::Duration> KeepAlive(int64_t lease) = 0;
  // Its keys go at once. OK too when there is no such lease any more.
  virtual absl::Status Revoke(int64_t lease) = 0;
};

// The end of the range of all keys that begin with `prefix`, which must not be empty.
std::string PrefixEnd(std::string prefix);

}  // namespace riskkv::etcd

#endif  // RISKKV_COMMON_STORE_ETCD_API_H_

// etcd's v3 API over gRPC, for the store (common/store/etcd). Plain text; TLS and etcd's own users are not there yet.
#ifndef RISKKV_COMMON_NET_ETCD_CLIENT_H_
#define RISKKV_COMMON_NET_ETCD_CLIENT_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "common/store/etcd/api.h"
#include "grpcpp/grpcpp.h"

namespace riskkv {

struct EtcdOptions {
  std::vector<std::string> endpoints;  // host:port of members of one cluster
  std::string prefix = "riskkv/";      // of the store's keys
  absl::Duration timeout = absl::Seconds(2);  // of one call
};

// "etcd:HOST:PORT[,HOST:PORT...][/PREFIX]". INVALID_ARGUMENT naming what is wrong.
absl::StatusOr<EtcdOptions> ParseEtcdSpec(std::string_view spec);
bool IsEtcdSpec(std::string_view spec);

// Thread-safe. Talks to one member and goes on to the next after each failure. Nothing is sent twice: whether a call that failed is
// made again is for the caller to say.
class EtcdClient : public etcd::Api {
 public:
  explicit EtcdClient(EtcdOptions options);
  std::string name() const override { return name_; }
  absl::StatusOr<etcd::RangeReply> Range(const etcd::RangeQuery& query) override;
  absl::StatusOr<etcd::TxnReply> Txn(const etcd::TxnRequest& request) override;
  absl::StatusOr<etcd::LeaseGrant> Grant(absl::Duration ttl) override;
  absl::StatusOr<absl::Duration> KeepAlive(int64_t lease) override;
  absl::Status Revoke(int64_t lease) override;

 private:
  // The member that is used now, and its number.
  std::shared_ptr<grpc::Channel> Channel(std::size_t* member);
  // OK, or the typed error of a call to `member`, which is left when it did not answer.
  absl::Status Judge(const grpc::Status& status, std::size_t member, const char* call, bool in_doubt);

  const EtcdOptions options_;
  const std::string name_;
  Mutex mu_;
  std::size_t current_ ABSL_GUARDED_BY(mu_) = 0;
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mu_);  // to the current member; made when it is needed
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_NET_ETCD_CLIENT_H_

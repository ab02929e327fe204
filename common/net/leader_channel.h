// The way to the leading one of several coordinators.
#ifndef RISKKV_COMMON_NET_LEADER_CHANNEL_H_
#define RISKKV_COMMON_NET_LEADER_CHANNEL_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "grpcpp/grpcpp.h"

namespace riskkv {

// "a,b" into its parts, at least one.
std::vector<std::string> SplitAddresses(std::string_view list);
// The same of "host:port[,host:port...]". INVALID_ARGUMENT (BAD_ARGUMENT) naming the part that is none.
absl::StatusOr<std::vector<std::string>> ParseAddresses(std::string_view list);

// Thread-safe. Believes in one coordinator until the outcome of a call says otherwise.
class LeaderChannel {
 public:
  // At least one address.
  explicit LeaderChannel(std::vector<std::string> addresses);
  struct Choice {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
  };
  Choice Current();
  // What came of a call to `address`, passed on. NOT_LEADER leads to the coordinator that it names; NOT_LEADER that names none, and no answer
  // at all, to the next one of the list.
  absl::Status Learn(const std::string& address, absl::Status outcome);
  // Whether another coordinator than the one that gave `outcome` may do what was asked: it does not lead, or was not reached and is not
  // the only one. A call that was not answered may have been carried out.
  bool ElsewhereMayDo(const absl::Status& outcome) const;

 private:
  const std::vector<std::string> addresses_;
  Mutex mu_;
  std::size_t next_ ABSL_GUARDED_BY(mu_) = 0;  // the last one taken from the list
  std::string current_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_NET_LEADER_CHANNEL_H_

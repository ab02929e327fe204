// Which of several coordinators leads. The leader holds the key <prefix>leader, which lives as long as its lease, and has raised the
// counter <prefix>term, which is never removed. Both are compared in each of its transactions: one that was paused, or cut off, and
// comes back late, is refused by etcd whatever it believes.
//
// Beside that the leader stops by itself before its lease may expire at the server: a renewal counts from before it was sent, on this
// host's monotonic clock. No rule compares the clocks of two hosts.
#ifndef RISKKV_COMMON_STORE_ETCD_LEADERSHIP_H_
#define RISKKV_COMMON_STORE_ETCD_LEADERSHIP_H_

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/store/etcd/api.h"

namespace riskkv::etcd {

struct ElectionOptions {
  std::string prefix = "riskkv/";
  std::string id;       // of this coordinator, new at each start of the process
  std::string address;  // where it serves
  absl::Duration ttl = absl::Seconds(5);  // asked for; whole seconds
  bool renew = true;    // false: no thread, tests call Renew
};

struct LeaderInfo {
  std::string id;
  std::string address;
  uint64_t term = 0;
};

class Leadership;

// Of one try: `won`, or who leads.
struct Campaigned {
  std::unique_ptr<Leadership> won;
  LeaderInfo leader;
};

// Thread-safe. Lost once, lost for good: campaign again.
class Leadership {
 public:
  // One try. UNAVAILABLE (STORE_UNAVAILABLE): etcd does not answer.
  static absl::StatusOr<Campaigned> Campaign(std::shared_ptr<Api> api, const Clock* clock, const ElectionOptions& options);
  // Who leads; nobody: nullopt.
  static absl::StatusOr<std::optional<LeaderInfo>> Look(Api& api, const ElectionOptions& options);
  ~Leadership();  // gives the lead up, so that another need not wait for the lease

  uint64_t term() const { return term_; }
  // OK while this process leads for certain. FAILED_PRECONDITION (NOT_LEADER) from shortly before the lease may run out.
  absl::Status Check() const;
  // The transaction is refused unless this process still leads.
  void Guard(TxnRequest& request) const;
  // Of a guarded transaction that was refused: OK when the lead is not why; NOT_LEADER, and lost from now on, when it is. `found` are the
  // answers to Guard's own two reads, which stand first.
  absl::Status Judge(const std::vector<std::vector<KeyValue>>& found);
  // One renewal; false when the lead is lost.
  bool Renew();

 private:
  Leadership(std::shared_ptr<Api> api, const Clock* clock, ElectionOptions options) : api_(std::move(api)), clock_(clock), options_(std::move(options)) {}
  void Run();
  void Lose(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<Api> api_;
  const Clock* const clock_;
  const ElectionOptions options_;
  uint64_t term_ = 0;
  int64_t key_revision_ = 0;  // create revision of the leader's key
  int64_t lease_ = 0;
  absl::Duration ttl_;
  mutable Mutex mu_;
  CondVar changed_;
  absl::Duration until_ ABSL_GUARDED_BY(mu_);  // monotonic
  std::string lost_ ABSL_GUARDED_BY(mu_);      // why; empty: not lost
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace riskkv::etcd

#endif  // RISKKV_COMMON_STORE_ETCD_LEADERSHIP_H_

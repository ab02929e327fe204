// What happened in which order: owner records as they became durable, tokens as engines produced them, FINALs as they left. And what
// of it breaks a promise.
#ifndef RISKKV_TESTS_FAULTS_TRACE_H_
#define RISKKV_TESTS_FAULTS_TRACE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/migration/records.h"

namespace riskkv::faults {

// Thread-safe. Producers are boots, by Process::number.
class Trace {
 public:
  void Started(int producer, const std::string& boot);
  // `with_job`: its job was written in the same transaction.
  void Owner(const OwnerRecord& record, bool with_job);
  void Sampled(int producer, int64_t index, int64_t n_prompt);
  void FinalSent(const Fence& fence);
  // The destination refused it, definitely: the source goes on.
  void FinalRefused(const Fence& fence);
  // A client asks for a new owner.
  void RecoverAsked();
  // Of a request that ended: forgets it.
  void Reset();
  // A token as a worker handed it to a client, before the client looked at it.
  void Delivered(int64_t index, int producer, uint64_t epoch);
  // A token the client accepted.
  void Accepted(int64_t index, int32_t token, int producer, uint64_t epoch);

  // Everything that contradicts protocol.md, 7. `n_prompt`: the request's; samples of other requests are not looked at.
  std::vector<std::string> Violations(const std::string& request_id, int64_t n_prompt);
  OwnerRecord LastOwner();
  // What became durable and who produced, for a failed cell.
  std::string Text();

 private:
  enum class Kind { kOwner, kSampled, kFinal, kRefused, kRecover };
  struct Entry {
    Kind kind;
    std::shared_ptr<const OwnerRecord> owner;  // kOwner
    std::shared_ptr<const Fence> fence;        // kFinal, kRefused
    int producer = 0;
    int64_t index = 0;
    int64_t n_prompt = 0;
    bool with_job = false;
  };
  struct Token {
    int64_t index = 0;
    int32_t token = -1;
    int producer = 0;
    uint64_t epoch = 0;
  };

  void CheckProduced(const std::string& request_id, int64_t n_prompt, std::vector<std::string>& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CheckAccepted(const std::string& request_id, std::vector<std::string>& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CheckRecords(std::vector<std::string>& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  std::map<int, std::string> boots_ ABSL_GUARDED_BY(mu_);
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const OwnerRecord> last_owner_ ABSL_GUARDED_BY(mu_);  // of the entries; null: none
  std::map<int64_t, std::map<int, uint64_t>> delivered_ ABSL_GUARDED_BY(mu_);  // index -> producer -> epoch
  std::vector<Token> accepted_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> early_ ABSL_GUARDED_BY(mu_);  // found as it happened
};

}  // namespace riskkv::faults

#endif  // RISKKV_TESTS_FAULTS_TRACE_H_

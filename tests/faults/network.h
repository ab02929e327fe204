// Calls between processes, in process: every message can be lost, delayed, doubled, overtaken or held up, and links can be cut.
#ifndef RISKKV_TESTS_FAULTS_NETWORK_H_
#define RISKKV_TESTS_FAULTS_NETWORK_H_

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "services/worker/core/move_peers.h"
#include "tests/faults/process.h"

namespace riskkv::faults {

enum class Message {
  kGetRequest, kReserve, kStartMove, kMoveEvents, kDecide, kQueryAttempt, kAdopt,  // coordinator to worker
  kPrepared, kResumed, kResolve, kLease,                                           // worker to coordinator
  kDeclare, kPush, kFinal, kAbort,                                                 // source to destination
  kAttach, kLocate,                                                                // client
  kCancel, kCancelRequest,                                                         // client and former owner to owner; worker to coordinator
};
const char* Name(Message message);
// Every message a move's course depends on; cells' bytes (kPush) are not among them.
const std::vector<Message>& ControlMessages();

enum class Trouble {
  kDrop,       // never arrives
  kLoseReply,  // is served, the answer is lost
  kDelay,
  kDouble,     // is served twice
  kReorder,    // the caller sees an error; it is served later, after what the caller does next
  kStall,      // nothing comes back until the caller gives up
};
const char* Name(Trouble trouble);

struct Rule {
  Message message;
  Trouble trouble;
  int times = 1;
  absl::Duration by = absl::Milliseconds(15);  // kDelay, kDouble, kReorder
};

struct CallTerms {
  worker::Cancellation* cancel = nullptr;
  absl::Duration timeout = absl::InfiniteDuration();
  // Served on a thread of its own, so that the caller may leave earlier: for calls that wait.
  bool waits = false;
};

// Thread-safe.
class Network {
 public:
  ~Network() { Drain(); }
  // Waits until everything that is served late or for nobody has been. The processes must have been stopped.
  void Drain();

  void Add(const Rule& rule);
  void ClearRules();
  // Both ways; ids of processes.
  void Cut(const std::string& a, const std::string& b);
  void MendAll();
  // So many pushes have one bit of their first frame flipped on the way.
  std::atomic<int> flips{0};
  // So many FINALs are sent again after a while, as a transport that retries would; the second answer counts.
  std::atomic<int> finals_again{0};
  // Messages that were sent and have not arrived yet.
  std::atomic<int> late{0};

  // `serve` owns what it needs: it may run after the call has returned. Its result is absl::Status or absl::StatusOr.
  template <typename F, typename R = std::invoke_result_t<F>>
  R Call(Message message, const ProcessPtr& from, const ProcessPtr& to, const CallTerms& terms, F serve) {
    const std::optional<Rule> rule = Take(message);
    const absl::Time start = absl::Now();
    if (absl::Status s = Pass(rule, *from, to.get(), terms, start); !s.ok()) {
      if (rule && rule->trouble == Trouble::kReorder) Later(rule->by, to, serve);
      return R(s);
    }
    R reply = terms.waits ? Apart<R>(serve, *from, *to, terms, start) : serve();
    if (rule && rule->trouble == Trouble::kDouble) Later(rule->by, to, serve);
    if (rule && rule->trouble == Trouble::kLoseReply) return R(Unreachable("the answer was lost"));
    if (absl::Status s = Way(*from, to.get(), terms, start); !s.ok()) return R(s);
    return reply;
  }
  // Whether a message could pass now. Waits while either end is paused.
  absl::Status Way(const Process& from, const Process* to, const CallTerms& terms, absl::Time start);
  std::optional<Rule> Take(Message message);
  bool IsCut(const std::string& a, const std::string& b);
  static absl::Status Unreachable(const std::string& why);

 private:
  template <typename R>
  struct Shared {
    Mutex mu;
    CondVar done;
    std::optional<R> result ABSL_GUARDED_BY(mu);
  };

  absl::Status Pass(const std::optional<Rule>& rule, const Process& from, const Process* to, const CallTerms& terms, absl::Time start);
  void Spawn(std::function<void()> run);

  template <typename F>
  void Later(absl::Duration by, const ProcessPtr& to, F serve) {
    ++late;
    Spawn([this, by, to, serve]() mutable {
      absl::SleepFor(by);
      to->Stand();
      if (!to->dead) (void)serve();
      --late;
    });
  }
  template <typename R, typename F>
  R Apart(F serve, const Process& from, const Process& to, const CallTerms& terms, absl::Time start) {
    auto shared = std::make_shared<Shared<R>>();
    Spawn([shared, serve]() mutable {
      R result = serve();
      MutexLock lock(shared->mu);
      shared->result.emplace(std::move(result));
      shared->done.NotifyAll();
    });
    for (;;) {
      {
        MutexLock lock(shared->mu);
        if (!shared->result) shared->done.WaitFor(shared->mu, std::chrono::milliseconds(1));
        if (shared->result) return *std::move(shared->result);
      }
      if (absl::Status s = Way(from, &to, terms, start); !s.ok()) return R(s);
    }
  }

  Mutex mu_;
  CondVar idle_;
  std::vector<Rule> rules_ ABSL_GUARDED_BY(mu_);
  std::set<std::pair<std::string, std::string>> cuts_ ABSL_GUARDED_BY(mu_);
  int running_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace riskkv::faults

#endif  // RISKKV_TESTS_FAULTS_NETWORK_H_

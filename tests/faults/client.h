// A client of one request: the real StreamMerger and DeliveryLog, attached over the faulty network by the rules of protocol.md, 3. It
// never gives up: it attaches again, asks the coordinator, and recovers a request whose owner is lost.
#ifndef RISKKV_TESTS_FAULTS_CLIENT_H_
#define RISKKV_TESTS_FAULTS_CLIENT_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "services/client/core/delivery_log.h"
#include "services/client/core/stream_merger.h"
#include "services/worker/core/request_manager.h"
#include "tests/faults/world.h"

namespace riskkv::faults {

struct ClientTerms {
  std::string request_id;
  std::string address;  // of the worker that admitted it; empty: asks the coordinator
  worker::RequestParams params;
  std::vector<Token> prompt;
  absl::Duration slow;  // between two tokens read
};

// A thread of its own follows the request. Public methods from any thread.
class Client {
 public:
  Client(World* world, ProcessPtr process, ClientTerms terms);
  ~Client() { Stop(); }
  void Stop();

  // Closes every stream, and attaches again after `away`.
  void Disconnect(absl::Duration away);
  // Opens a second stream to the owner, which supersedes the first.
  void AttachTwice();
  // The user hangs up. The owner is told until it has heard it; the stream ends by its answer, or without it after kHangUp.
  void Cancel();
  static constexpr absl::Duration kHangUp = absl::Milliseconds(60);
  struct Cancelled {
    double ms = 0;           // from Cancel to the end of the stream
    bool by_worker = false;  // not by the client's own giving up
  };
  // Nothing before Cancel, or when the request had ended.
  std::optional<Cancelled> cancelled();

  int64_t received();
  bool finished();
  absl::Status failure();
  std::vector<Token> tokens();
  client::FinishReason end();
  // Gaps and doubles in what was handed on, by the client's own account.
  int64_t Lost();
  int64_t Duplicated();
  std::string Text();

 private:
  struct Source {
    ProcessPtr process;
    std::shared_ptr<worker::Subscription> stream;
  };
  void Run();
  void RunDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Read(client::SourceId id, Source& source) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Handle(client::SourceId id, const client::Event& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Act(client::SourceId id, const client::Event& event, const client::Verdict& verdict) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Deliver(const client::TokenEvent& token) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Acknowledge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Locate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Recover() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AttachOwner() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  client::SourceId Open(const client::Target& target) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndCancelled(bool by_worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TellCancel();
  bool AttachedToOwner() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  World* const world_;
  const ProcessPtr process_;
  const ClientTerms terms_;
  Mutex mu_;
  client::StreamMerger merger_ ABSL_GUARDED_BY(mu_);
  client::DeliveryLog log_ ABSL_GUARDED_BY(mu_);
  std::vector<worker::LoggedToken> held_ ABSL_GUARDED_BY(mu_);
  std::map<client::SourceId, Source> sources_ ABSL_GUARDED_BY(mu_);
  client::SourceId last_source_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<client::Target> candidate_ ABSL_GUARDED_BY(mu_);
  client::SourceId candidate_source_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<absl::Time> candidate_due_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::Time> attach_due_ ABSL_GUARDED_BY(mu_);
  absl::Time last_news_ ABSL_GUARDED_BY(mu_);
  absl::Time away_until_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  int failures_ ABSL_GUARDED_BY(mu_) = 0;
  bool recover_asked_ ABSL_GUARDED_BY(mu_) = false;  // and what came of it is not known yet
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  absl::Status last_trouble_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Time> cancel_at_ ABSL_GUARDED_BY(mu_);
  std::optional<Cancelled> cancelled_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> stop_{false};
  std::thread thread_;
  std::thread canceller_ ABSL_GUARDED_BY(mu_);
};

}  // namespace riskkv::faults

#endif  // RISKKV_TESTS_FAULTS_CLIENT_H_

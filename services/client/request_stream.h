// One request as a client sees it: an unbroken stream of tokens, wherever it runs. Opens streams to workers,
// follows moves, attaches again when a stream breaks, asks the coordinator when nobody said where the request
// went.
#ifndef RISKKV_SERVICES_CLIENT_REQUEST_STREAM_H_
#define RISKKV_SERVICES_CLIENT_REQUEST_STREAM_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "riskkv/v1/generation.pb.h"
#include "services/client/core/delivery_log.h"
#include "services/client/core/stream_merger.h"
#include "services/client/event_queue.h"
#include "services/client/locator.h"
#include "services/client/recoverer.h"
#include "services/client/stream_source.h"

namespace riskkv::client {

struct StreamOptions {
  std::string coordinator;  // for Locate; empty: only Moving and Moved are followed
  bool pre_attach = true;   // attach to the candidate ahead of the decision
  int max_attempts = 10;    // attaches in a row that brought no token; then the last error
  absl::Duration backoff = absl::Milliseconds(20);  // before the second attempt, doubled up to max_backoff
  absl::Duration max_backoff = absl::Seconds(1);
  absl::Duration locate_timeout = absl::Seconds(2);
  absl::Duration stall = absl::Seconds(15);  // silence after which the coordinator is asked, if there is one
  bool acknowledge = true;                   // tell the owner that the end was received
  // With a coordinator, and for a request that this stream began with token ids (a text prompt's tokens only its worker knows): an owner
  // that is lost for good is replaced (Recover). The coordinator says whether it is; until then, and for so long after the last event,
  // attaches go on beyond max_attempts.
  bool recover = true;
  int recover_after = 3;  // attaches in a row that brought no token
  absl::Duration recover_patience = absl::Seconds(30);
  absl::Duration recover_timeout = absl::Seconds(65);  // of one call: the new owner replays before it answers
};

// What a client must hold of a request to give it a new owner; with its output from index 0.
struct Holding {
  std::vector<int32_t> prompt;
  v1::SamplingParams sampling;
  v1::StopParams stop;
  std::vector<v1::TokenRecord> log;
};

// What Next() hands out. MovingEvent and MovedEvent are news, the stream follows by itself.
using StreamItem = std::variant<TokenEvent, StartedEvent, MovingEvent, MovedEvent, FinishedEvent>;

// Stop() is thread-safe; everything else belongs to one thread.
class RequestStream {
 public:
  static std::unique_ptr<RequestStream> Generate(const std::string& address,
                                                 const v1::GenerateRequest& request, StreamOptions options,
                                                 const Clock* clock);
  // min_epoch: the highest epoch seen before, 0 for none.
  static std::unique_ptr<RequestStream> Attach(const std::string& address, const std::string& request_id,
                                               int64_t next_index, uint64_t min_epoch, StreamOptions options,
                                               const Clock* clock);
  ~RequestStream();

  // Blocks. After FinishedEvent or an error: OUT_OF_RANGE. CANCELLED after Stop(); DEADLINE_EXCEEDED when
  // nothing came in time (call again).
  absl::StatusOr<StreamItem> Next(absl::Duration timeout = absl::InfiniteDuration());
  // Detaches: the request goes on without this client.
  void Stop() { queue_.Close(); }
  // Asks the owner to end the request. True: it was running.
  absl::StatusOr<bool> CancelRequest();

  const std::string& request_id() const { return request_id_; }
  const StreamMerger& merger() const { return merger_; }
  const DeliveryLog& log() const { return log_; }
  int64_t attaches() const { return attaches_; }
  int64_t recoveries() const { return recoveries_; }

 private:
  RequestStream(StreamOptions options, int64_t next_index, uint64_t min_epoch, const Clock* clock);
  std::optional<absl::StatusOr<StreamItem>> Handle(const QueuedEvent& queued);
  std::optional<absl::StatusOr<StreamItem>> Act(const QueuedEvent& queued, Verdict verdict);
  absl::StatusOr<StreamItem> Deliver(const QueuedEvent& queued);
  absl::StatusOr<StreamItem> Finish(const FinishedEvent& end);
  std::optional<absl::StatusOr<StreamItem>> PlanReattach(absl::Status why);
  void ScheduleAttach();
  absl::StatusOr<StreamItem> Fail(absl::Status error);
  std::optional<absl::StatusOr<StreamItem>> RunDue();
  // --- an owner that is lost for good ---
  bool MayRecover() const;
  bool Patient() const;  // a Recover may yet succeed
  void StartRecover();
  std::optional<absl::StatusOr<StreamItem>> EndRecover();
  absl::Status AskCoordinator();
  void AttachOwner();
  void PreAttach();
  void ForgetCandidate();
  SourceId Open(const Target& target, StreamSource::Starter starter);
  SourceId OpenAttach(const Target& target);
  void Close(SourceId source);
  bool AttachedToOwner() const;
  absl::Duration NextDue(absl::Duration deadline) const;

  const StreamOptions options_;
  const Clock* const clock_;
  std::optional<Locator> locator_;
  std::optional<Recoverer> recoverer_;
  std::optional<Holding> holding_;
  EventQueue queue_;
  StreamMerger merger_;
  DeliveryLog log_;
  std::string request_id_;
  std::map<SourceId, std::unique_ptr<StreamSource>> sources_;
  SourceId next_source_ = 1;
  int failures_ = 0;  // attaches since the last token
  int64_t attaches_ = 0;
  int64_t recoveries_ = 0;
  bool recovering_ = false;  // a Recover was asked for that may have been carried out
  std::optional<absl::Duration> attach_due_;  // the owner has to be attached then
  std::optional<Target> candidate_;           // named by Moving, not decided yet
  std::optional<absl::Duration> candidate_due_;
  SourceId candidate_source_ = 0;
  absl::Duration last_news_;
  bool ended_ = false;
};

}  // namespace riskkv::client

#endif  // RISKKV_SERVICES_CLIENT_REQUEST_STREAM_H_

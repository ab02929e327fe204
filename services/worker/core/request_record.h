// What the manager keeps of each request, and the state shared by the manager, its loop and the subscriptions.
#ifndef RISKKV_SERVICES_WORKER_CORE_REQUEST_RECORD_H_
#define RISKKV_SERVICES_WORKER_CORE_REQUEST_RECORD_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "services/worker/core/request_costs.h"
#include "services/worker/core/request_ledger.h"
#include "services/worker/core/request_manager.h"
#include "services/worker/core/request_text.h"

namespace riskkv::worker {

// Guarded by ManagerState::mu, but for what never changes once the record can be found. history, n_kv and seq are changed by
// the loop's thread only, so that thread may read them without the lock while the engine runs.
struct RequestRecord {
  RequestRecord(std::string id_, RequestParams params_, std::vector<Token> prompt, const Engine* engine)
      : id(std::move(id_)),
        params(std::move(params_)),
        n_prompt(static_cast<int64_t>(prompt.size())),
        history(std::move(prompt)),
        text(engine, params.stop.stop, params.stop.min_tokens) {}

  const std::string id;
  const RequestParams params;
  const int64_t n_prompt;

  std::vector<Token> history;     // prompt, then the log's tokens; none once it was forgotten
  std::vector<LoggedToken> log;
  TextAssembler text;             // has seen the log's tokens
  uint64_t epoch = 1;
  int64_t start_index = 0;
  RequestState state = RequestState::kQueued;
  FinishReason finish = FinishReason::kNone;
  absl::Status error;
  std::string tail_text;

  SeqId seq = -1;
  int64_t n_kv = 0;
  Holding holding;
  std::vector<Provenance> provenance;

  bool cancel_requested = false;        // its streams have ended; it will at the next turn of the loop here, or where it went
  bool acknowledged = false;            // before its end: the record goes with it
  bool moving = false;
  bool pause_requested = false;
  std::optional<MoveTarget> candidate;  // announced; cleared when the request goes on here
  uint64_t announcements = 0;
  MoveTarget moved_to;
  bool deliver = true;                  // false from Install until AllowDelivery
  bool dropped = false;                 // by Drop, with no owner to name: attached clients get NOT_FOUND
  std::shared_ptr<RequestRecord> displaced;  // what Install found under this id: a request that was moved away and comes back

  uint64_t attachment = 0;              // number of the newest subscription
  bool attached = false;
  absl::Duration created, detached_since, ended_at;
  CondVar changed;

  int64_t n_tokens() const { return static_cast<int64_t>(history.size()) + forgotten_; }
  // It moved away and holds no cells: all that is still asked for is where it went and how long it was.
  void ForgetTokens();
  bool running() const { return state == RequestState::kPrefill || state == RequestState::kDecoding; }
  bool finished() const { return state == RequestState::kFinished; }

 private:
  int64_t forgotten_ = 0;  // tokens
};

using RecordPtr = std::shared_ptr<RequestRecord>;

struct Reservation {
  SeqId seq = -1;
  int64_t length = 0;
  Holding holding;
};

// Subscriptions share it: they may outlive the manager.
struct ManagerState {
  ManagerState(ManagerOptions options_, const Clock* clock_, int64_t cells, int slots)
      : options(std::move(options_)), clock(clock_), ledger(cells, slots), loop_ok(clock_->Monotonic()), pool_ok(loop_ok) {}

  const ManagerOptions options;
  const Clock* const clock;

  mutable Mutex mu;
  std::unordered_map<std::string, RecordPtr> records ABSL_GUARDED_BY(mu);
  std::deque<RecordPtr> queue ABSL_GUARDED_BY(mu);      // kQueued, in order of arrival
  std::vector<RecordPtr> running ABSL_GUARDED_BY(mu);   // kPrefill and kDecoding, in the order they started here
  std::map<uint64_t, Reservation> reservations ABSL_GUARDED_BY(mu);
  uint64_t last_reservation ABSL_GUARDED_BY(mu) = 0;
  CellLedger ledger ABSL_GUARDED_BY(mu);
  CostMeter costs ABSL_GUARDED_BY(mu);
  // When these were last as they should be, on `clock`.
  absl::Duration loop_ok ABSL_GUARDED_BY(mu);  // a step was made, or there was none to make
  absl::Duration pool_ok ABSL_GUARDED_BY(mu);  // something was taken or given back, or nobody had to wait for it
  bool stopping ABSL_GUARDED_BY(mu) = false;

  // nullptr when there is none.
  RecordPtr Find(const std::string& id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // NOT_FOUND (UNKNOWN_REQUEST) names the id.
  absl::StatusOr<RecordPtr> Get(const std::string& id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void Unschedule(const RecordPtr& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // True while a request of this worker is on its way in or out.
  bool AnyMove() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
};

absl::Status UnknownRequest(const std::string& id);
// FAILED_PRECONDITION (REQUEST_FINISHED) saying how.
absl::Status RequestFinished(const RequestRecord& record);
std::string_view StateName(RequestState state);
std::string_view ReasonName(FinishReason reason);

RequestSnapshot Snapshot(const RequestRecord& record, absl::Duration now, bool with_log);

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_REQUEST_RECORD_H_

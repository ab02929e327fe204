// All requests of one worker and the decode loop that serves them: continuous batching over one Engine, admission by free
// cells, and the operations a move needs at both ends. gRPC-free.
//
// Threading: every method is thread-safe. One thread of the manager's own calls the engine; methods that touch cells
// (Export, Append, Prefill, Pause, ...) run on it between two steps and block the caller until done. Events are not
// queued a subscriber: the request log is the queue, so a slow reader costs nothing and misses nothing.
#ifndef RISKKV_SERVICES_WORKER_CORE_REQUEST_MANAGER_H_
#define RISKKV_SERVICES_WORKER_CORE_REQUEST_MANAGER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "services/worker/core/request.h"

namespace riskkv::worker {

struct ManagerOptions {
  std::string worker_id;
  std::string boot_id;
  int max_queue = 64;                                      // QUEUE_FULL beyond
  int max_running = 0;                                     // 0: the engine's sequences
  int prefill_chunk = 256;                                 // prompt tokens in one step ...
  int prefill_chunk_moving = 64;                           // ... while a move is under way, so that it is not held up
  absl::Duration detach_grace = absl::Seconds(30);         // decoding goes on without a client; then the request is cancelled
  absl::Duration log_retention = absl::Minutes(10);        // of an ended request's log and of a moved one's forwarding
  int max_ended = 4096;                                    // ended and moved requests kept at most; the oldest go first
  int warm_up_context = 0;                                 // costs are measured at start, up to this context; 0: by requests only
};

struct EndEvent { FinishReason reason; absl::Status error; int64_t output_tokens; uint64_t epoch; std::string tail_text; };
struct MovingEvent { MoveTarget candidate; };
struct MovedEvent { MoveTarget owner; };
struct SupersededEvent {};
using RequestEvent = std::variant<LoggedToken, MovingEvent, MovedEvent, EndEvent, SupersededEvent>;

// One attached client. Destroying it detaches.
class Subscription {
 public:
  virtual ~Subscription() = default;
  // The next event; DEADLINE_EXCEEDED when none came in time (call again). After MovedEvent, EndEvent or SupersededEvent: OUT_OF_RANGE.
  virtual absl::StatusOr<RequestEvent> Next(absl::Duration timeout) = 0;
};

struct ManagerLoad {
  int64_t cells_total = 0, cells_used = 0;   // used: by requests (with their headroom) and reservations
  int slots_total = 0, slots_used = 0;
  int queued = 0, running = 0;
  double busy = 0;                           // share of the last seconds the loop was computing
  double prefill_p1 = 0, prefill_p2 = 0;     // p1*T + p2*T^2 seconds
  double decode_s = 0, decode_s_per_token = 0;
  double append_s = 0, export_s = 0;         // a token of all layers
  absl::Duration no_step;                    // requests run, and for so long no step was made
  absl::Duration no_room;                    // requests wait, none runs, and for so long nothing was taken or given back
};

// Room held for a request on its way in. Counted until Install takes it over or it is released. Movable id.
struct ReservationId { uint64_t value = 0; };

// A request about to be owned here (or adopted in recovery).
struct IncomingRequest {
  std::string id;
  RequestParams params;
  std::vector<Token> prompt;
  std::vector<LoggedToken> log;      // from index 0
  std::vector<Provenance> provenance;
};

class RequestManager {
 public:
  static absl::StatusOr<std::unique_ptr<RequestManager>> Create(ManagerOptions options, std::unique_ptr<Engine> engine,
                                                                const Clock* clock);
  virtual ~RequestManager() = default;   // stops the loop; open subscriptions end with EndEvent{kError}

  // --- clients ---
  // Id of the admitted request. RESOURCE_EXHAUSTED (QUEUE_FULL; NO_BLOCKS when it could never fit), INVALID_ARGUMENT.
  virtual absl::StatusOr<std::string> Admit(RequestParams params, std::vector<Token> prompt) = 0;
  // A new attach supersedes the old one. NOT_FOUND (UNKNOWN_REQUEST); FAILED_PRECONDITION (STALE_FENCE) when epoch < min_epoch and the
  // request is neither incoming nor moved; ABORTED (EPOCH_CONFLICT) when it is newer and begins below what the client has.
  virtual absl::StatusOr<std::unique_ptr<Subscription>> Attach(const std::string& id, int64_t next_index, uint64_t min_epoch) = 0;
  // True: it had not ended. Its streams end at once, whatever a step or a move is doing with it; the request itself ends at the next
  // turn of the loop, of a paused or moved one if it goes on here (whoever else may own it has to be told: CancelRelay).
  // FAILED_PRECONDITION (NOT_OWNER) of one on its way in.
  virtual absl::StatusOr<bool> Cancel(const std::string& id) = 0;
  // Its client has all it wants: the record goes with the request's end.
  virtual absl::Status Acknowledge(const std::string& id) = 0;
  virtual absl::StatusOr<RequestSnapshot> Get(const std::string& id) const = 0;
  // The same without prompt and log, which may be long.
  virtual absl::StatusOr<RequestSnapshot> Look(const std::string& id) const = 0;
  // Without prompts and logs (RequestSnapshot::prompt_tokens and output_tokens have the counts).
  virtual std::vector<RequestSnapshot> List(bool include_ended) const = 0;

  // --- source of a move ---
  // Marks the request as moving (at most one move): NOT_FOUND, FAILED_PRECONDITION (ALREADY_MIGRATING, REQUEST_FINISHED),
  // ABORTED (EPOCH_CONFLICT, naming both epochs).
  virtual absl::Status BeginMove(const std::string& id, uint64_t expected_epoch) = 0;
  virtual absl::StatusOr<KvBlock> Export(const std::string& id, TokenRange range, const std::vector<int>& layers) = 0;
  // Stops decoding at the next token boundary and returns the state there. FAILED_PRECONDITION (REQUEST_FINISHED) when it ended first.
  virtual absl::StatusOr<RequestSnapshot> Pause(const std::string& id) = 0;
  // Tells attached clients where the request may go.
  virtual void AnnounceMoving(const std::string& id, const MoveTarget& candidate) = 0;
  // Not moved after all: decodes on (under `epoch`, which a roll-back raised; 0: unchanged). Ends the move.
  virtual absl::Status ResumeHere(const std::string& id, uint64_t epoch = 0) = 0;
  // The decision: another worker owns it. Clients get Moved; cells and log stay until FreeMoved.
  virtual absl::Status MarkMoved(const std::string& id, const MoveTarget& owner) = 0;
  // The new owner has RESUMED: frees the cells; forwarding stays for the retention.
  virtual void FreeMoved(const std::string& id) = 0;

  // --- destination of a move ---
  // Counts `cells` and one slot, and opens a sequence. RESOURCE_EXHAUSTED (NO_BLOCKS, NO_SLOT) naming free and wanted.
  virtual absl::StatusOr<ReservationId> Reserve(int64_t cells) = 0;
  virtual absl::Status Append(ReservationId reservation, const KvBlock& block) = 0;
  // Computes cells for tokens (REPLAY), in chunks between the steps of running requests. `history` are all tokens from 0 on; computes
  // [length so far, upto).
  virtual absl::Status Prefill(ReservationId reservation, const std::vector<Token>& history, int64_t upto) = 0;
  virtual int64_t ReservedLength(ReservationId reservation) const = 0;
  // The request is complete here (cells = tokens - 1): state kIncoming; an attach waits. Takes the reservation over.
  virtual absl::Status Install(ReservationId reservation, IncomingRequest request) = 0;
  // Committed: decodes from start_index on under `epoch`; nothing is delivered before AllowDelivery.
  virtual absl::Status Activate(const std::string& id, uint64_t epoch, int64_t start_index) = 0;
  virtual absl::Status AllowDelivery(const std::string& id) = 0;
  // Aborted or rolled back: frees what Install, Activate or Reserve holds. Unknown ids are ignored. A held attach gets Moved{owner} if
  // given, else NOT_FOUND.
  virtual void Drop(const std::string& id, const MoveTarget* owner = nullptr) = 0;
  virtual void Release(ReservationId reservation) = 0;

  // --- the rest ---
  // Ends the loop: calls that wait get UNAVAILABLE (NOT_READY), requests that have not ended kError with the same, and so do their
  // subscriptions. Idempotent; the destructor does it. For a server that wants its streams to end before it shuts down.
  virtual void Stop() = 0;
  virtual ManagerLoad Load() const = 0;
  virtual const ModelFacts& facts() const = 0;
  virtual const EngineLimits& limits() const = 0;
  // Thread-safe parts of the engine.
  virtual const Engine& engine() const = 0;
};

}  // namespace riskkv::worker

#endif  // RISKKV_SERVICES_WORKER_CORE_REQUEST_MANAGER_H_

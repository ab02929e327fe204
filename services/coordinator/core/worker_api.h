// What the coordinator calls on workers. rpc/ implements it over gRPC, tests by a script. Thread-safe.
//
// Errors: the worker's own carry its reason; the transport's carry PEER_UNREACHABLE or NO_PROGRESS. A worker of another boot than
// the one named in a fence refuses (BOOT_ID_CHANGED or STALE_FENCE).
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_WORKER_API_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_WORKER_API_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/migration/records.h"
#include "services/coordinator/core/worker_types.h"

namespace riskkv::coordinator {

struct ReserveArgs {
  Fence fence;
  Fingerprint fingerprint;  // of the source's model
  Mode mode = Mode::kFull;
  std::string predictor_set;
  std::string profile;
  int64_t n_kv = 0;
  int64_t growth = 0;
  int64_t headroom = 0;
  std::string parameters;  // RequestInfo::parameters
  absl::Duration lease;
};

struct StartMoveArgs {
  Fence fence;
  Mode mode = Mode::kFull;
  std::string predictor_set;
  std::string profile;
  WorkerName destination;
  absl::Duration max_pause;
  absl::Duration deadline;
};

// The request ended before FINAL.
struct RequestEnded {
  int64_t output_tokens = 0;
};

// `failed`: the attempt failed before the decision (an error status); the source decodes again unless the detail says in_doubt.
struct MoveEvent {
  MigrationState state = MigrationState::kUnspecified;
  std::variant<std::monostate, RoundDone, PausedAt, MoveStats, absl::Status, RequestEnded> detail;
};

struct DecideArgs {
  Fence fence;
  Decision decision = Decision::kAborted;
  uint64_t new_epoch = 0;
  int64_t start_index = 0;
  WorkerName owner;
  absl::Status reason;
};

struct AttemptInfo {
  bool known = false;
  MigrationState state = MigrationState::kUnspecified;
  std::string boot_id;
  absl::Status error;
};

struct LinkSample {
  double bytes_per_second = 0;
  double rtt_seconds = 0;
};

struct AdoptArgs {
  std::string request_id;
  uint64_t epoch = 0;
  int64_t start_index = 0;
  // The request's prompt, log and parameters as the caller's protobuf bytes (riskkv.v1.RecoverRequest): the coordinator only passes
  // them on.
  std::string recover_request;
};

// The running StartMove call. The stream breaking is not an abort.
class MoveStream {
 public:
  virtual ~MoveStream() = default;  // after Cancel and the last Next
  // Blocks for the next event; null when the stream has ended.
  virtual std::unique_ptr<MoveEvent> Next() = 0;
  // Why it ended; OK when the worker ended it. Once, after Next gave nothing.
  virtual absl::Status Finish() = 0;
  // Ends the call from another thread.
  virtual void Cancel() = 0;
};

class WorkerApi {
 public:
  virtual ~WorkerApi() = default;
  virtual absl::StatusOr<RequestInfo> GetRequest(const WorkerName& worker, const std::string& request_id) = 0;
  virtual absl::Status Reserve(const WorkerName& destination, const ReserveArgs& args, absl::Duration timeout) = 0;
  virtual std::unique_ptr<MoveStream> StartMove(const WorkerName& source, const StartMoveArgs& args) = 0;
  // False: the worker held nothing for the attempt.
  virtual absl::StatusOr<bool> Decide(const WorkerName& worker, const DecideArgs& args, absl::Duration timeout) = 0;
  virtual absl::StatusOr<AttemptInfo> QueryAttempt(const WorkerName& worker, const Fence& fence, absl::Duration timeout) = 0;
  virtual absl::Status FetchSet(const WorkerName& worker, const std::string& digest, const std::vector<std::string>& peers,
                                absl::Duration timeout) = 0;
  virtual absl::StatusOr<LinkSample> MeasureLink(const WorkerName& source, const std::string& address, absl::Duration timeout) = 0;
  virtual absl::Status Adopt(const WorkerName& worker, const AdoptArgs& args, absl::Duration timeout) = 0;
  // What a worker says of itself now, sets included.
  virtual absl::StatusOr<WorkerInfo> Describe(const WorkerName& worker, absl::Duration timeout) = 0;
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_WORKER_API_H_

// Whether a migration may start, and the facts it starts from: who owns the request, both workers, the request as its owner knows it.
#ifndef RISKKV_SERVICES_COORDINATOR_CORE_ADMISSION_H_
#define RISKKV_SERVICES_COORDINATOR_CORE_ADMISSION_H_

#include <string>

#include "absl/status/statusor.h"
#include "services/coordinator/core/context.h"

namespace riskkv::coordinator {

struct Admitted {
  OwnerRecord owner;
  WorkerInfo source;
  WorkerInfo destination;
  RequestInfo request;
};

// Thread-safe. Calls the source (GetRequest, up to the call timeout).
class Admission {
 public:
  explicit Admission(const CoreContext& core) : core_(core) {}

  // What a caller can be told without looking anything up: BAD_ARGUMENT, LOSSY_NOT_ALLOWED. `plan_only`: id and epoch may be absent.
  static absl::Status CheckSpec(const JobSpec& spec, bool plan_only);
  // UNKNOWN_REQUEST, UNKNOWN_WORKER, PEER_UNREACHABLE, NOT_READY, SAME_WORKER, NOT_OWNER, BOOT_ID_CHANGED, EPOCH_CONFLICT, ALREADY_MIGRATING,
  // REQUEST_FINISHED, MODEL_MISMATCH and its kin, PREDICTOR_MISSING and UNKNOWN_PROFILE for what is named. OK means also that the
  // recorded owner has confirmed the epoch to this process (protocol.md, 5).
  absl::StatusOr<Admitted> Check(const JobSpec& spec) const;

  // The owner record, or the implicit one of the worker whose boot id the request id contains. NOT_FOUND (UNKNOWN_REQUEST).
  absl::StatusOr<OwnerRecord> OwnerOf(const std::string& request_id) const;

 private:
  absl::StatusOr<WorkerInfo> Source(const JobSpec& spec, const OwnerRecord& owner) const;
  absl::StatusOr<WorkerInfo> Destination(const JobSpec& spec, const OwnerRecord& owner) const;
  absl::StatusOr<Admitted> CheckRecord(const JobSpec& spec) const;
  // The recorded owner does not confirm. True: a worker holds the request at a higher epoch than the store, which went back in time (a
  // restored backup); the record says so now.
  absl::StatusOr<bool> FollowAhead(const std::string& request_id) const;
  // The owner confirms the epoch. A higher one at the owner itself wins as well.
  absl::StatusOr<RequestInfo> Confirm(OwnerRecord& owner) const;

  const CoreContext& core_;
};

}  // namespace riskkv::coordinator

#endif  // RISKKV_SERVICES_COORDINATOR_CORE_ADMISSION_H_

#include "services/coordinator/core/admission.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/migration/transitions.h"
#include "fmt/format.h"

namespace riskkv::coordinator {
namespace {

constexpr std::size_t kLongestId = 256;

absl::Status BadArgument(std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT", message);
}

absl::Status Precondition(std::string_view reason, std::string message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason, message);
}

}  // namespace

absl::Status Admission::CheckSpec(const JobSpec& spec, bool plan_only) {
  if (!plan_only && spec.migration_id.empty()) return BadArgument("migration_id is required: it makes a retry the same migration");
  if (spec.request_id.empty()) return BadArgument("request_id is required");
  if (spec.destination.empty()) return BadArgument("destination is required");
  if (!plan_only && spec.expected_epoch == 0) {
    return BadArgument("expected_epoch is required: without it a late retry could move the request again");
  }
  for (const std::string* id : {&spec.migration_id, &spec.request_id, &spec.destination, &spec.source, &spec.predictor_set,
                                &spec.profile, &spec.reason, &spec.traceparent}) {
    if (id->size() > kLongestId) return BadArgument(fmt::format("a name of {} bytes is longer than {}", id->size(), kLongestId));
  }
  if ((Name(spec.mode) == "UNSPECIFIED") != (spec.mode == Mode::kUnspecified)) {
    return BadArgument(fmt::format("mode {} is none this version knows", static_cast<int>(spec.mode)));
  }
  if ((Name(spec.on_failure) == "UNSPECIFIED") != (spec.on_failure == OnFailure::kUnspecified)) {
    return BadArgument(fmt::format("on_failure {} is none this version knows", static_cast<int>(spec.on_failure)));
  }
  if (spec.deadline_ms < 0 || spec.max_pause_ms < 0) return BadArgument("durations must not be negative");
  if (IsLossy(spec.mode) && !spec.allow_lossy) {
    return MakeError(absl::StatusCode::kInvalidArgument, "LOSSY_NOT_ALLOWED",
                     fmt::format("mode {} changes the cache; it needs allow_lossy", Name(spec.mode)));
  }
  return absl::OkStatus();
}

absl::StatusOr<OwnerRecord> Admission::OwnerOf(const std::string& request_id) const {
  absl::StatusOr<OwnerRecord> record = core_.store->GetOwner(request_id);
  if (record.ok() || !absl::IsNotFound(record.status())) return record;
  absl::StatusOr<std::string> boot = BootOfRequest(request_id);
  auto worker = boot.ok() ? core_.registry->FindBoot(*boot) : std::nullopt;
  if (!worker) {
    return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_REQUEST",
                     fmt::format("request {}: it never moved, and no registered worker has the boot id it was minted by", request_id));
  }
  return ImplicitOwner(request_id, worker->info.name);
}

absl::StatusOr<WorkerInfo> Admission::Source(const JobSpec& spec, const OwnerRecord& owner) const {
  if (!spec.source.empty() && spec.source != owner.owner.id) {
    return Precondition("NOT_OWNER", fmt::format("request {} is owned by {}, not by {}", spec.request_id, owner.owner.id, spec.source));
  }
  ASSIGN_OR_RETURN(WorkerInfo source, core_.registry->FindAlive(owner.owner.id));
  if (source.name.boot_id != owner.owner.boot_id) {
    return Precondition("BOOT_ID_CHANGED", fmt::format("request {} was owned by boot {} of {}, which runs boot {} now", spec.request_id,
                                                       owner.owner.boot_id, owner.owner.id, source.name.boot_id));
  }
  return source;
}

absl::StatusOr<WorkerInfo> Admission::Destination(const JobSpec& spec, const OwnerRecord& owner) const {
  if (spec.destination == owner.owner.id) {
    return Precondition("SAME_WORKER", fmt::format("request {} is already on {}", spec.request_id, spec.destination));
  }
  ASSIGN_OR_RETURN(WorkerInfo destination, core_.registry->FindAlive(spec.destination));
  if (!destination.serving) {
    return MakeError(absl::StatusCode::kUnavailable, "NOT_READY", fmt::format("worker {} is not serving", spec.destination));
  }
  return destination;
}

absl::StatusOr<RequestInfo> Admission::Confirm(OwnerRecord& owner) const {
  ASSIGN_OR_RETURN(RequestInfo info, core_.api->GetRequest(owner.owner, owner.request_id));
  if (info.moved) {
    return Precondition("NOT_OWNER", fmt::format("worker {} says that request {} has moved on", owner.owner.id, owner.request_id));
  }
  if (info.finished) {
    return Precondition("REQUEST_FINISHED", fmt::format("request {} on {} has ended", owner.request_id, owner.owner.id));
  }
  if (info.epoch < owner.epoch) {
    return MakeError(absl::StatusCode::kAborted, "EPOCH_CONFLICT",
                     fmt::format("worker {} holds request {} at epoch {}, the owner record says {}", owner.owner.id, owner.request_id,
                                 info.epoch, owner.epoch));
  }
  if (info.epoch == owner.epoch) return info;
  core_.log->critical("req={} worker {} holds epoch {}, the store {} only says {}: the store went back in time; the worker wins",
                      owner.request_id, owner.owner.id, info.epoch, core_.store->name(), owner.epoch);
  ASSIGN_OR_RETURN(owner, FollowWorker(owner, owner.owner, info.epoch, info.start_index));
  ASSIGN_OR_RETURN(Revisions written, core_.store->Commit({.owner = owner}));
  owner.revision = written.owner;
  return info;
}

namespace {

// The recorded owner does not confirm the record; somebody else may.
bool Unconfirmed(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason == "NOT_OWNER" || reason == "BOOT_ID_CHANGED" || reason == "UNKNOWN_REQUEST" || reason == "UNKNOWN_WORKER" ||
         reason == "PEER_UNREACHABLE" || reason == "EPOCH_CONFLICT" || reason == "SAME_WORKER";
}

}  // namespace

absl::StatusOr<bool> Admission::FollowAhead(const std::string& request_id) const {
  absl::StatusOr<OwnerRecord> owner = core_.store->GetOwner(request_id);
  if (absl::IsNotFound(owner.status())) owner = ImplicitOwner(request_id, {});
  RETURN_IF_ERROR(owner.status());
  OwnerRecord next = *owner;
  // The highest epoch of all wins.
  for (const RegisteredWorker& worker : core_.registry->All()) {
    if (!worker.alive() || worker.info.name.boot_id == owner->owner.boot_id) continue;
    absl::StatusOr<RequestInfo> info = core_.api->GetRequest(worker.info.name, request_id);
    if (!info.ok() || info->moved || info->epoch <= next.epoch) continue;
    ASSIGN_OR_RETURN(next, FollowWorker(*owner, worker.info.name, info->epoch, info->start_index));
  }
  if (next.epoch == owner->epoch) return false;
  core_.log->critical(
      "req={} worker {} holds epoch {}, the store {} says that {} owns it at epoch {}: the store went back in time; the worker wins",
      request_id, next.owner.id, next.epoch, core_.store->name(), owner->owner.id, owner->epoch);
  RETURN_IF_ERROR(core_.store->Commit({.owner = next}).status());
  return true;
}

absl::StatusOr<Admitted> Admission::Check(const JobSpec& spec) const {
  absl::StatusOr<Admitted> facts = CheckRecord(spec);
  if (facts.ok() || !Unconfirmed(facts.status())) return facts;
  ASSIGN_OR_RETURN(const bool ahead, FollowAhead(spec.request_id));
  return ahead ? CheckRecord(spec) : facts;
}

absl::StatusOr<Admitted> Admission::CheckRecord(const JobSpec& spec) const {
  Admitted facts;
  ASSIGN_OR_RETURN(facts.owner, OwnerOf(spec.request_id));
  ASSIGN_OR_RETURN(facts.source, Source(spec, facts.owner));
  ASSIGN_OR_RETURN(facts.destination, Destination(spec, facts.owner));
  if (facts.owner.open || !facts.owner.resumed) {
    return Precondition("ALREADY_MIGRATING",
                        fmt::format("request {} is being moved by migration {}", spec.request_id,
                                    facts.owner.open ? facts.owner.open->migration_id : facts.owner.last_committed));
  }
  facts.owner.owner = facts.source.name;  // where it is reached now
  ASSIGN_OR_RETURN(facts.request, Confirm(facts.owner));
  if (spec.expected_epoch != 0 && spec.expected_epoch != facts.owner.epoch) {
    return MakeError(absl::StatusCode::kAborted, "EPOCH_CONFLICT",
                     fmt::format("request {} is at epoch {}, expected {}", spec.request_id, facts.owner.epoch, spec.expected_epoch));
  }
  RETURN_IF_ERROR(WithContext(CheckCompatible(facts.source.fingerprint, facts.destination.fingerprint), "destination", ""));
  // A set or profile that is named must be there; one that is not is only one way less.
  if (IsLossy(spec.mode) && (!spec.predictor_set.empty() || !spec.profile.empty())) {
    RETURN_IF_ERROR(core_.planner->Profile(spec, spec.mode, facts.source, facts.destination, facts.request).status());
  }
  return facts;
}

}  // namespace riskkv::coordinator

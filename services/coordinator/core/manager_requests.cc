// What workers ask about attempts, and clients about requests.
#include <optional>
#include <string>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/status.h"
#include "common/migration/transitions.h"
#include "fmt/format.h"
#include "services/coordinator/core/migration_manager.h"

namespace riskkv::coordinator {
namespace {

constexpr int kMostTries = 16;

absl::Status CheckFence(const Fence& fence) {
  if (!fence.migration_id.empty() && !fence.request_id.empty() && fence.attempt > 0 && fence.epoch > 0) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
                   fmt::format("a fence needs migration, request, attempt and epoch: got '{}', '{}', {}, {}", fence.migration_id,
                               fence.request_id, fence.attempt, fence.epoch));
}

// The first field in which `fence` is not the one that the attempt was opened under; empty when it is.
std::string StaleField(const Job& job, const AttemptRecord& attempt, const Fence& fence) {
  if (fence.request_id != job.spec().request_id) return fmt::format("request {}, not {}", fence.request_id, job.spec().request_id);
  if (fence.epoch != attempt.epoch) return fmt::format("epoch {}, not {}", fence.epoch, attempt.epoch);
  if (fence.leader_term != attempt.leader_term) return fmt::format("leader term {}, not {}", fence.leader_term, attempt.leader_term);
  if (fence.source_boot_id != attempt.source.boot_id) {
    return fmt::format("source boot '{}', not '{}'", fence.source_boot_id, attempt.source.boot_id);
  }
  if (fence.destination_boot_id != attempt.destination.boot_id) {
    return fmt::format("destination boot '{}', not '{}'", fence.destination_boot_id, attempt.destination.boot_id);
  }
  return "";
}

}  // namespace

absl::StatusOr<std::shared_ptr<Job>> MigrationManager::CancelJob(const std::string& migration_id) {
  ASSIGN_OR_RETURN(std::shared_ptr<Job> job, Find(migration_id));
  JobRecord record = job->Snapshot();
  absl::Status committed =
      MakeError(absl::StatusCode::kFailedPrecondition, "ALREADY_COMMITTED",
                fmt::format("migration {} has already moved request {}", migration_id, record.spec.request_id));
  if (IsTerminal(record.state)) {
    if (record.state == MigrationState::kSucceeded) return committed;
    return job;  // it moves nothing any more
  }
  job->RequestCancel();
  // No attempt opens or commits once the flag is set. A coordinator after this one must find it, too.
  RETURN_IF_ERROR(job->Save(*core_.store, {.mutate = [](JobRecord& r, const OwnerRecord&) { r.cancelled = true; }}));
  record = job->Snapshot();
  const AttemptRecord* last = record.last_attempt();
  if (last == nullptr || last->decision == Decision::kAborted) return job;
  absl::Status why = MakeError(absl::StatusCode::kCancelled, "CANCELLED_BY_CALLER", fmt::format("migration {} was cancelled", migration_id));
  ASSIGN_OR_RETURN(DecisionReply reply, decisions_.Close(*job, FenceOf(record, *last), why));
  if (reply.decision != Decision::kAborted) return committed;
  return job;
}

absl::Status MigrationManager::CheckStale(const Job* job, const Fence& fence) {
  std::optional<AttemptRecord> attempt = job == nullptr ? std::nullopt : job->Attempt(fence.attempt);
  const std::string stale = attempt ? StaleField(*job, *attempt, fence) : "";
  if (stale.empty()) return absl::OkStatus();
  ++stale_refusals_;
  absl::Status refused = MakeError(absl::StatusCode::kFailedPrecondition, "STALE_FENCE",
                                   fmt::format("attempt {} of migration {}: the fence says {}", fence.attempt, fence.migration_id, stale));
  core_.log->warn("mig={}/{} req={} {}", fence.migration_id, fence.attempt, fence.request_id, refused);
  return refused;
}

absl::StatusOr<DecisionReply> MigrationManager::Prepared(const Fence& fence, int64_t start_index) {
  RETURN_IF_ERROR(CheckFence(fence));
  auto job = Active(fence.migration_id);
  if (RISKKV_MUTANT("late commit of a closed attempt accepted") && job == nullptr) job = Find(fence.migration_id).value_or(nullptr);
  // Another fence than the attempt's own has no part in it, whatever becomes of it.
  if (absl::Status stale = CheckStale(job.get(), fence); !stale.ok()) return DecisionReply{.decision = Decision::kAborted, .reason = stale};
  // A job that has ended still knows what became of each attempt, which a later owner record does not say.
  const std::shared_ptr<Job> ended = job == nullptr ? Find(fence.migration_id).value_or(nullptr) : nullptr;
  ASSIGN_OR_RETURN(DecisionReply reply, job != nullptr ? decisions_.Prepared(job.get(), fence, start_index)
                                                       : decisions_.Look(ended.get(), fence));
  if (reply.decision == Decision::kAborted) {
    core_.log->info("mig={}/{} req={} prepared, refused: {}", fence.migration_id, fence.attempt, fence.request_id, reply.reason);
  }
  return Addressed(ForDestination(std::move(reply)));
}

absl::StatusOr<DecisionReply> MigrationManager::Resumed(const Fence& fence, uint64_t new_epoch) {
  RETURN_IF_ERROR(CheckFence(fence));
  // A job that is terminal already is read from the store: a doubled Resumed is answered as the first.
  auto job = Find(fence.migration_id);
  if (!job.ok() && !absl::IsNotFound(job.status())) return job.status();
  Job* known = job.ok() ? job->get() : nullptr;
  if (absl::Status stale = CheckStale(known, fence); !stale.ok()) return DecisionReply{.decision = Decision::kRolledBack, .reason = stale};
  ASSIGN_OR_RETURN(DecisionReply reply, decisions_.Resumed(known, fence, new_epoch));
  return Addressed(ForDestination(std::move(reply)));
}

absl::StatusOr<DecisionReply> MigrationManager::Resolve(const Fence& fence, bool give_up, std::string_view side) {
  RETURN_IF_ERROR(CheckFence(fence));
  auto job = Find(fence.migration_id);
  if (!job.ok() && !absl::IsNotFound(job.status())) return job.status();
  Job* known = job.ok() ? job->get() : nullptr;
  RETURN_IF_ERROR(CheckStale(known, fence));
  ASSIGN_OR_RETURN(DecisionReply reply, decisions_.Look(known, fence));
  if (reply.decision == Decision::kOpen && give_up && known != nullptr) {
    absl::Status why = MakeError(absl::StatusCode::kAborted, "CANCELLED_BY_PEER",
                                 fmt::format("the {} gave attempt {} up", side.empty() ? "peer" : side, fence.attempt));
    ASSIGN_OR_RETURN(reply, decisions_.Close(*known, fence, WithContext(why, side, "")));
  }
  return Addressed(side == "destination" ? ForDestination(std::move(reply)) : ForSource(std::move(reply)));
}

DecisionReply MigrationManager::Addressed(DecisionReply reply) const {
  auto worker = core_.registry->Find(reply.owner.id);
  if (worker.ok()) {
    reply.owner.address = worker->info.name.address;
    reply.owner.client_address = worker->info.name.client_address;
  }
  return reply;
}

absl::StatusOr<OwnerRecord> MigrationManager::ChangeOwner(const std::string& request_id, const Transition& transition) {
  absl::Status last;
  for (int i = 0; i < kMostTries; ++i) {
    ASSIGN_OR_RETURN(OwnerRecord record, admission_.OwnerOf(request_id));
    ASSIGN_OR_RETURN(OwnerRecord next, transition(record));
    auto written = core_.store->Commit({.owner = next});
    if (written.ok()) {
      next.revision = written->owner;
      return next;
    }
    last = written.status();
    if (!absl::IsAborted(last)) return last;
  }
  return last;
}

absl::StatusOr<bool> MigrationManager::CancelRequest(const std::string& request_id) {
  // Without a record no attempt was ever opened: the worker's own cancel is all there is to do.
  absl::StatusOr<OwnerRecord> record = core_.store->GetOwner(request_id);
  if (absl::IsNotFound(record.status())) return false;
  RETURN_IF_ERROR(record.status());
  RETURN_IF_ERROR(ChangeOwner(request_id, [](const OwnerRecord& r) -> absl::StatusOr<OwnerRecord> { return riskkv::Cancel(r); }).status());
  std::string migration;
  {
    MutexLock lock(mu_);
    auto it = active_by_request_.find(request_id);
    if (it != active_by_request_.end()) migration = it->second;
  }
  // The open attempt cannot commit any more; end it now rather than at its deadline.
  if (auto job = Active(migration)) job->RequestCancel();
  return true;
}

absl::StatusOr<Location> MigrationManager::Locate(const std::string& request_id) const {
  ASSIGN_OR_RETURN(OwnerRecord owner, admission_.OwnerOf(request_id));
  Location location{.request_id = request_id,
                    .owner = owner.owner,
                    .epoch = owner.epoch,
                    .start_index = owner.start_index,
                    .migrating = owner.open.has_value() || !owner.resumed,
                    .cancelled = owner.cancelled};
  auto worker = core_.registry->FindBoot(owner.owner.boot_id);
  if (worker) location.owner = worker->info.name;
  return location;
}

absl::StatusOr<WorkerInfo> MigrationManager::Adopter(const RecoverArgs& args) const {
  if (!args.destination.empty()) return core_.registry->FindAlive(args.destination);
  std::optional<WorkerInfo> best;
  auto free_cells = [](const WorkerInfo& w) { return w.load.cells_total - w.load.cells_used; };
  for (const RegisteredWorker& worker : core_.registry->All()) {
    if (!worker.alive() || !worker.info.serving) continue;
    if (!best || free_cells(worker.info) > free_cells(*best)) best = worker.info;
  }
  if (best) return *best;
  return MakeError(absl::StatusCode::kUnavailable, "NO_SLOT", fmt::format("no worker is there to adopt request {}", args.request_id));
}

absl::Status MigrationManager::CheckLost(const OwnerRecord& record) const {
  switch (core_.registry->PresenceOf(record.owner)) {
    case Presence::kGone:
      return absl::OkStatus();
    case Presence::kUnknown:
      return MakeError(absl::StatusCode::kUnavailable, "NOT_READY",
                       fmt::format("request {} is owned by {}, which may not have registered yet", record.request_id, record.owner.id));
    case Presence::kAlive:
      break;
  }
  if (ReasonOf(ConfirmBoot(record.owner)) == "BOOT_ID_CHANGED") return absl::OkStatus();  // before its lease ran out
  // An owner that holds nothing could not adopt it.
  if (absl::IsNotFound(core_.api->GetRequest(record.owner, record.request_id).status())) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, "NOT_OWNER",
                   fmt::format("request {} is owned by {}, which holds its lease: attach to it", record.request_id, record.owner.id));
}

absl::Status MigrationManager::ConfirmBoot(const WorkerName& worker) const {
  ASSIGN_OR_RETURN(const WorkerInfo now, core_.api->Describe(worker, core_.options.call_timeout));
  if (now.name.boot_id == worker.boot_id) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnavailable, "BOOT_ID_CHANGED",
                   fmt::format("worker {} restarted: boot {} became {}", worker.id, worker.boot_id, now.name.boot_id));
}

absl::StatusOr<Location> MigrationManager::Recover(const RecoverArgs& args) {
  absl::StatusOr<OwnerRecord> before = admission_.OwnerOf(args.request_id);
  if (absl::IsNotFound(before.status()) && args.epoch == 1) {
    // The worker that admitted it is gone with its boot: only its id is known.
    absl::StatusOr<std::string> boot = BootOfRequest(args.request_id);
    if (boot.ok()) before = ImplicitOwner(args.request_id, {.boot_id = *boot});
  }
  RETURN_IF_ERROR(before.status());
  RETURN_IF_ERROR(CheckLost(*before));
  ASSIGN_OR_RETURN(WorkerInfo adopter, Adopter(args));
  // The record must name the boot that adopts: one that has just died may still have its lease.
  RETURN_IF_ERROR(ConfirmBoot(adopter.name));
  ASSIGN_OR_RETURN(OwnerRecord next, RecoverTo(*before, args.epoch, adopter.name, args.received));
  ASSIGN_OR_RETURN(Revisions written, core_.store->Commit({.owner = next}));
  next.revision = written.owner;
  core_.log->warn("req={} recovered: {} -> {} at epoch {}, {} tokens", args.request_id, before->owner.id, adopter.name.id, next.epoch,
                  args.received);
  AdoptArgs adopt{.request_id = args.request_id,
                  .epoch = next.epoch,
                  .start_index = args.received,
                  .recover_request = args.recover_request};
  RETURN_IF_ERROR(Annotate(core_.api->Adopt(adopter.name, adopt, core_.options.adopt_timeout),
                           fmt::format("request {} belongs to {} at epoch {} now, which could not adopt it", args.request_id,
                                       adopter.name.id, next.epoch)));
  return Locate(args.request_id);
}

}  // namespace riskkv::coordinator

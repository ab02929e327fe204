#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/net/status.h"
#include "fmt/format.h"
#include "services/coordinator/rpc/convert_job.h"
#include "services/coordinator/rpc/convert_worker.h"
#include "services/coordinator/rpc/services.h"

namespace riskkv::coordinator {
namespace {

constexpr absl::Duration kLookAgain = absl::Milliseconds(100);  // how soon a hung-up client or a shutdown is seen
constexpr int kDefaultLimit = 100;
constexpr int kMostListed = 1000;

absl::Status InDoubt(const std::string& id) {
  absl::Status status = MakeError(absl::StatusCode::kDeadlineExceeded, "IN_DOUBT",
                                  fmt::format("migration {} is past its deadline and the store cannot be reached: not decided yet", id));
  ErrorDetail detail = *GetDetail(status);
  detail.in_doubt = true;
  detail.source_still_serving = false;
  detail.retryable = true;
  detail.side = "coordinator";
  SetDetail(status, detail);
  return status;
}

void Fill(const Location& location, v1::LocateReply* reply) {
  reply->set_request_id(location.request_id);
  reply->set_owner(location.owner.id);
  reply->set_address(location.owner.for_clients());
  reply->set_epoch(location.epoch);
  reply->set_start_index(location.start_index);
  reply->set_migrating(location.migrating);
  reply->set_cancelled(location.cancelled);
}

}  // namespace

grpc::Status CoordinatorService::Follow(std::shared_ptr<const ServiceContext> core, std::shared_ptr<Job> job, uint64_t from_seq,
                                        grpc::ServerContext* context, grpc::ServerWriter<v1::MigrationEvent>* writer) {
  // A client that does not read must not hold the term: only the job, which needs nothing of it, is kept.
  const std::shared_ptr<const std::atomic<bool>> stopping = core->stopping;
  core.reset();
  for (;;) {
    Job::Batch batch = job->WaitEvents(from_seq, kLookAgain);
    for (const JobEvent& event : batch.events) {
      if (!writer->Write(ToProto(job->id(), event))) return grpc::Status::OK;  // the client hung up; the job goes on
      from_seq = event.seq + 1;
    }
    if (batch.ended) return grpc::Status::OK;
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    if (batch.in_doubt) return ToGrpc(InDoubt(job->id()));
    if (stopping != nullptr && *stopping) {
      return ToGrpc(MakeError(absl::StatusCode::kUnavailable, "NOT_READY", "the coordinator is stopping, or no longer leads; watch again"));
    }
  }
}

grpc::Status CoordinatorService::Migrate(grpc::ServerContext* context, const v1::MigrateRequest* request,
                                         grpc::ServerWriter<v1::MigrationEvent>* writer) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  auto job = (*core)->manager->StartJob(FromProto(*request));
  if (!job.ok()) return ToGrpc(job.status());
  return Follow(*std::move(core), *std::move(job), 1, context, writer);
}

grpc::Status CoordinatorService::StartMigration(grpc::ServerContext*, const v1::MigrateRequest* request, v1::Migration* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  auto job = (*core)->manager->StartJob(FromProto(*request));
  if (!job.ok()) return ToGrpc(job.status());
  *reply = ToProto((*job)->Snapshot(), (*core)->clock->Now());
  return grpc::Status::OK;
}

grpc::Status CoordinatorService::GetMigration(grpc::ServerContext*, const v1::GetMigrationRequest* request, v1::Migration* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  auto job = (*core)->manager->Find(request->migration_id());
  if (!job.ok()) return ToGrpc(job.status());
  *reply = ToProto((*job)->Snapshot(), (*core)->clock->Now());
  return grpc::Status::OK;
}

grpc::Status CoordinatorService::ListMigrations(grpc::ServerContext*, const v1::ListMigrationsRequest* request,
                                                v1::ListMigrationsReply* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  int limit = request->limit() > 0 ? std::min(request->limit(), kMostListed) : kDefaultLimit;
  auto jobs = (*core)->manager->List({.active_only = request->active_only(), .request_id = request->request_id(), .limit = limit});
  if (!jobs.ok()) return ToGrpc(jobs.status());
  for (const JobRecord& job : *jobs) *reply->add_migrations() = ToProto(job, (*core)->clock->Now());
  return grpc::Status::OK;
}

grpc::Status CoordinatorService::WatchMigration(grpc::ServerContext* context, const v1::WatchMigrationRequest* request,
                                                grpc::ServerWriter<v1::MigrationEvent>* writer) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  auto job = (*core)->manager->Find(request->migration_id());
  if (!job.ok()) return ToGrpc(job.status());
  return Follow(*std::move(core), *std::move(job), request->from_seq(), context, writer);
}

grpc::Status CoordinatorService::CancelMigration(grpc::ServerContext*, const v1::CancelMigrationRequest* request,
                                                 v1::Migration* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  auto job = (*core)->manager->CancelJob(request->migration_id());
  if (!job.ok()) return ToGrpc(job.status());
  *reply = ToProto((*job)->Snapshot(), (*core)->clock->Now());
  return grpc::Status::OK;
}

grpc::Status CoordinatorService::PlanMigration(grpc::ServerContext*, const v1::MigrateRequest* request, v1::Plan* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  auto plan = (*core)->manager->MakePlan(FromProto(*request));
  if (!plan.ok()) return ToGrpc(plan.status());
  *reply = ToProto(*plan);
  return grpc::Status::OK;
}

grpc::Status CoordinatorService::ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*, v1::ListWorkersReply* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  for (const RegisteredWorker& worker : (*core)->registry->All()) *reply->add_workers() = ToProto(worker);
  for (const cost::LinkEstimate& link : (*core)->links->All()) *reply->add_links() = ToProto(link);
  return grpc::Status::OK;
}

grpc::Status CoordinatorService::Locate(grpc::ServerContext*, const v1::LocateRequest* request, v1::LocateReply* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  auto location = (*core)->manager->Locate(request->request_id());
  if (!location.ok()) return ToGrpc(location.status());
  Fill(*location, reply);
  return grpc::Status::OK;
}

grpc::Status CoordinatorService::Recover(grpc::ServerContext*, const v1::RecoverRequest* request, v1::LocateReply* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  RecoverArgs args{.request_id = request->request_id(),
                   .epoch = request->epoch(),
                   .received = request->log_size(),
                   .destination = request->destination(),
                   .recover_request = request->SerializeAsString()};
  auto location = (*core)->manager->Recover(args);
  if (!location.ok()) return ToGrpc(location.status());
  Fill(*location, reply);
  return grpc::Status::OK;
}

}  // namespace riskkv::coordinator

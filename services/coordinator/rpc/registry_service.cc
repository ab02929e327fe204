#include <utility>

#include "common/base/status.h"
#include "common/net/status.h"
#include "services/coordinator/rpc/convert_job.h"
#include "services/coordinator/rpc/convert_worker.h"
#include "services/coordinator/rpc/services.h"

namespace riskkv::coordinator {
namespace {

const char* NameOf(v1::Side side) {
  switch (side) {
    case v1::SIDE_SOURCE:
      return "source";
    case v1::SIDE_DESTINATION:
      return "destination";
    case v1::SIDE_CLIENT:
      return "client";
    default:
      return "";
  }
}

grpc::Status Answer(const absl::StatusOr<DecisionReply>& decision, v1::DecisionReply* reply) {
  if (!decision.ok()) return ToGrpc(decision.status());
  *reply = ToProto(*decision);
  return grpc::Status::OK;
}

}  // namespace

grpc::Status RegistryService::Register(grpc::ServerContext*, const v1::RegisterRequest* request, v1::RegisterReply* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  WorkerInfo info = FromProto(request->worker());
  WorkerName name = info.name;
  auto before = (*core)->registry->Find(name.id);
  if (absl::Status registered = (*core)->registry->Register(std::move(info)); !registered.ok()) return ToGrpc(registered);
  if (before.ok() && before->info.name.boot_id != name.boot_id && before->alive()) {
    (*core)->log->warn("worker {}: boot {} at {} replaces boot {} at {}, whose lease still ran", name.id, name.boot_id, name.address,
                    before->info.name.boot_id, before->info.name.address);
  } else {
    (*core)->log->info("worker {} registered: boot {} at {}", name.id, name.boot_id, name.address);
  }
  reply->set_lease_ms(absl::ToInt64Milliseconds((*core)->registry->lease()));
  reply->set_renew_ms(absl::ToInt64Milliseconds((*core)->renew));
  reply->set_leader_term((*core)->store->leader_term());
  reply->set_coordinator_id((*core)->coordinator_id);
  return grpc::Status::OK;
}

// A renewal only names sets; what they are is asked once.
void RegistryService::Refresh(const ServiceContext& core, const std::string& worker_id) {
  auto worker = core.registry->FindAlive(worker_id);
  if (!worker.ok()) return;
  auto now = core.api->Describe(worker->name, absl::Seconds(2));
  if (!now.ok()) {
    core.log->warn("worker {} holds new sets but does not describe them: {}", worker_id, now.status());
    return;
  }
  core.registry->UpdateSets(worker->name, now->sets);
}

// Each renewal enters by itself: the stream stays open for as long as the worker lives, and terms end meanwhile.
grpc::Status RegistryService::RenewLease(grpc::ServerContext* context,
                                         grpc::ServerReaderWriter<v1::LeaseReply, v1::LeaseRenewal>* stream) {
  v1::LeaseRenewal renewal;
  while (stream->Read(&renewal)) {
    auto core = gate_->Enter();
    if (!core.ok()) return ToGrpc(core.status());
    auto unknown_sets = (*core)->registry->Renew(FromProto(renewal));
    if (!unknown_sets.ok()) return ToGrpc(unknown_sets.status());
    v1::LeaseReply reply;
    reply.set_lease_ms(absl::ToInt64Milliseconds((*core)->registry->lease()));
    reply.set_leader_term((*core)->store->leader_term());
    if (!stream->Write(reply)) break;
    if (*unknown_sets) Refresh(**core, renewal.worker_id());
    if ((*core)->stopping != nullptr && *(*core)->stopping) break;
  }
  return context->IsCancelled() ? grpc::Status::CANCELLED : grpc::Status::OK;
}

grpc::Status RegistryService::Prepared(grpc::ServerContext*, const v1::PreparedRequest* request, v1::DecisionReply* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  return Answer((*core)->manager->Prepared(FromProto(request->fence()), request->start_index()), reply);
}

grpc::Status RegistryService::Resumed(grpc::ServerContext*, const v1::ResumedRequest* request, v1::DecisionReply* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  return Answer((*core)->manager->Resumed(FromProto(request->fence()), request->new_epoch()), reply);
}

grpc::Status RegistryService::Resolve(grpc::ServerContext*, const v1::ResolveRequest* request, v1::DecisionReply* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  return Answer((*core)->manager->Resolve(FromProto(request->fence()), request->give_up(), NameOf(request->side())), reply);
}

grpc::Status RegistryService::ReportTransfer(grpc::ServerContext*, const v1::TransferReport* request, v1::TransferReportReply*) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  (*core)->links->Observe(request->source(), request->destination(), request->bytes(), request->seconds(), request->rtt_seconds());
  return grpc::Status::OK;
}

grpc::Status RegistryService::CancelRequest(grpc::ServerContext*, const v1::CancelOwnedRequest* request,
                                            v1::CancelOwnedReply* reply) {
  auto core = gate_->Enter();
  if (!core.ok()) return ToGrpc(core.status());
  auto known = (*core)->manager->CancelRequest(request->request_id());
  if (!known.ok()) return ToGrpc(known.status());
  reply->set_known(*known);
  return grpc::Status::OK;
}

}  // namespace riskkv::coordinator

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
  WorkerInfo info = FromProto(request->worker());
  WorkerName name = info.name;
  auto before = core_.registry->Find(name.id);
  if (absl::Status registered = core_.registry->Register(std::move(info)); !registered.ok()) return ToGrpc(registered);
  if (before.ok() && before->info.name.boot_id != name.boot_id && before->alive()) {
    core_.log->warn("worker {}: boot {} at {} replaces boot {} at {}, whose lease still ran", name.id, name.boot_id, name.address,
                    before->info.name.boot_id, before->info.name.address);
  } else {
    core_.log->info("worker {} registered: boot {} at {}", name.id, name.boot_id, name.address);
  }
  reply->set_lease_ms(absl::ToInt64Milliseconds(core_.registry->lease()));
  reply->set_renew_ms(absl::ToInt64Milliseconds(core_.renew));
  reply->set_leader_term(core_.store->leader_term());
  reply->set_coordinator_id(core_.coordinator_id);
  return grpc::Status::OK;
}

// A renewal only names sets; what they are is asked once.
void RegistryService::Refresh(const std::string& worker_id) {
  auto worker = core_.registry->FindAlive(worker_id);
  if (!worker.ok()) return;
  auto now = core_.api->Describe(worker->name, absl::Seconds(2));
  if (!now.ok()) {
    core_.log->warn("worker {} holds new sets but does not describe them: {}", worker_id, now.status());
    return;
  }
  core_.registry->UpdateSets(worker->name, now->sets);
}

grpc::Status RegistryService::RenewLease(grpc::ServerContext* context,
                                         grpc::ServerReaderWriter<v1::LeaseReply, v1::LeaseRenewal>* stream) {
  v1::LeaseRenewal renewal;
  while (stream->Read(&renewal)) {
    auto unknown_sets = core_.registry->Renew(FromProto(renewal));
    if (!unknown_sets.ok()) return ToGrpc(unknown_sets.status());
    v1::LeaseReply reply;
    reply.set_lease_ms(absl::ToInt64Milliseconds(core_.registry->lease()));
    reply.set_leader_term(core_.store->leader_term());
    if (!stream->Write(reply)) break;
    if (*unknown_sets) Refresh(renewal.worker_id());
    if (core_.stopping != nullptr && *core_.stopping) break;
  }
  return context->IsCancelled() ? grpc::Status::CANCELLED : grpc::Status::OK;
}

grpc::Status RegistryService::Prepared(grpc::ServerContext*, const v1::PreparedRequest* request, v1::DecisionReply* reply) {
  return Answer(core_.manager->Prepared(FromProto(request->fence()), request->start_index()), reply);
}

grpc::Status RegistryService::Resumed(grpc::ServerContext*, const v1::ResumedRequest* request, v1::DecisionReply* reply) {
  return Answer(core_.manager->Resumed(FromProto(request->fence()), request->new_epoch()), reply);
}

grpc::Status RegistryService::Resolve(grpc::ServerContext*, const v1::ResolveRequest* request, v1::DecisionReply* reply) {
  return Answer(core_.manager->Resolve(FromProto(request->fence()), request->give_up(), NameOf(request->side())), reply);
}

grpc::Status RegistryService::ReportTransfer(grpc::ServerContext*, const v1::TransferReport* request, v1::TransferReportReply*) {
  core_.links->Observe(request->source(), request->destination(), request->bytes(), request->seconds(), request->rtt_seconds());
  return grpc::Status::OK;
}

grpc::Status RegistryService::CancelRequest(grpc::ServerContext*, const v1::CancelOwnedRequest* request,
                                            v1::CancelOwnedReply* reply) {
  auto known = core_.manager->CancelRequest(request->request_id());
  if (!known.ok()) return ToGrpc(known.status());
  reply->set_known(*known);
  return grpc::Status::OK;
}

}  // namespace riskkv::coordinator

#include "services/worker/rpc/generation_service.h"

#include <utility>
#include <variant>

#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/net/convert.h"
#include "common/net/status.h"
#include "services/worker/rpc/request_convert.h"

namespace riskkv::worker {
namespace {

// How soon a stream sees that its client has gone.
constexpr absl::Duration kCheckClient = absl::Milliseconds(200);

struct ToEvent {
  v1::GenerateEvent operator()(const LoggedToken& token) const {
    v1::GenerateEvent out;
    *out.mutable_token() = ToProto(token);
    return out;
  }
  v1::GenerateEvent operator()(const MovingEvent& moving) const {
    v1::GenerateEvent out;
    out.mutable_moving()->set_worker_id(moving.candidate.worker_id);
    out.mutable_moving()->set_address(moving.candidate.address);
    out.mutable_moving()->set_migration_id(moving.candidate.migration_id);
    return out;
  }
  v1::GenerateEvent operator()(const MovedEvent& moved) const {
    v1::GenerateEvent out;
    out.mutable_moved()->set_worker_id(moved.owner.worker_id);
    out.mutable_moved()->set_address(moved.owner.address);
    out.mutable_moved()->set_epoch(moved.owner.epoch);
    out.mutable_moved()->set_next_index(moved.owner.next_index);
    return out;
  }
  v1::GenerateEvent operator()(const EndEvent& end) const {
    v1::GenerateEvent out;
    v1::Finished& finished = *out.mutable_finished();
    finished.set_reason(ToProto(end.reason));
    finished.set_output_tokens(end.output_tokens);
    finished.set_epoch(end.epoch);
    if (!end.error.ok()) *finished.mutable_error() = riskkv::ToProto(end.error);
    finished.set_tail_text(end.tail_text);
    return out;
  }
  v1::GenerateEvent operator()(const SupersededEvent&) const {
    v1::GenerateEvent out;
    out.mutable_superseded();
    return out;
  }
};

// The worker's going is not the request's end: such a stream breaks, and can be resumed elsewhere.
bool IsStopping(const RequestEvent& event) {
  const EndEvent* end = std::get_if<EndEvent>(&event);
  return end != nullptr && absl::IsUnavailable(end->error);
}

}  // namespace

absl::Status GenerationService::Admit(const v1::GenerateRequest& request, v1::Started& started) {
  ASSIGN_OR_RETURN(RequestParams params, ParamsFromProto(request.sampling(), request.stop()));
  ASSIGN_OR_RETURN(std::vector<Token> prompt, PromptFromProto(request, manager_.engine()));
  started.set_prompt_tokens(static_cast<int64_t>(prompt.size()));
  ASSIGN_OR_RETURN(*started.mutable_request_id(), manager_.Admit(std::move(params), std::move(prompt)));
  started.set_epoch(1);
  started.set_worker_id(worker_id_);
  return absl::OkStatus();
}

absl::Status GenerationService::Forward(grpc::ServerContext& context, Subscription& stream, Writer& writer) {
  while (!context.IsCancelled()) {
    absl::StatusOr<RequestEvent> event = stream.Next(kCheckClient);
    if (absl::IsOutOfRange(event.status())) return absl::OkStatus();
    if (absl::IsDeadlineExceeded(event.status())) continue;
    if (!event.ok()) return event.status();
    if (IsStopping(*event)) return std::get<EndEvent>(*event).error;
    if (!writer.Write(std::visit(ToEvent(), *event))) return absl::OkStatus();
  }
  return absl::OkStatus();
}

grpc::Status GenerationService::Generate(grpc::ServerContext* context, const v1::GenerateRequest* request, Writer* writer) {
  v1::GenerateEvent event;
  if (absl::Status s = Admit(*request, *event.mutable_started()); !s.ok()) return ToGrpc(s);
  const std::string id = event.started().request_id();
  if (!writer->Write(event) || request->detached()) return grpc::Status::OK;
  auto stream = manager_.Attach(id, /*next_index=*/0, /*min_epoch=*/0);
  if (!stream.ok()) return ToGrpc(stream.status());
  return ToGrpc(Forward(*context, **stream, *writer));
}

grpc::Status GenerationService::Attach(grpc::ServerContext* context, const v1::AttachRequest* request, Writer* writer) {
  auto stream = manager_.Attach(request->request_id(), request->next_index(), request->min_epoch());
  if (!stream.ok()) return ToGrpc(stream.status());
  // Tells a client that has to wait for the decision that it is attached.
  writer->SendInitialMetadata();
  return ToGrpc(Forward(*context, **stream, *writer));
}

grpc::Status GenerationService::Cancel(grpc::ServerContext*, const v1::CancelRequest* request, v1::CancelReply* reply) {
  const std::string& id = request->request_id();
  const absl::StatusOr<bool> running = relay_ != nullptr ? relay_->Cancel(id) : manager_.Cancel(id);
  if (running.ok()) reply->set_was_running(*running);
  return ToGrpc(running.status());
}

grpc::Status GenerationService::Acknowledge(grpc::ServerContext*, const v1::AcknowledgeRequest* request,
                                            v1::AcknowledgeReply*) {
  return ToGrpc(manager_.Acknowledge(request->request_id()));
}

grpc::Status GenerationService::GetRequest(grpc::ServerContext*, const v1::GetRequestRequest* request, v1::RequestInfo* reply) {
  const absl::StatusOr<RequestSnapshot> snapshot = manager_.Get(request->request_id());
  if (snapshot.ok()) {
    *reply = ToProto(*snapshot, worker_id_);
    *reply->mutable_sampling() = riskkv::ToProto(snapshot->params.sampling);
    *reply->mutable_stop() = ToProto(snapshot->params.stop);
  }
  return ToGrpc(snapshot.status());
}

grpc::Status GenerationService::ListRequests(grpc::ServerContext*, const v1::ListRequestsRequest* request,
                                             v1::ListRequestsReply* reply) {
  for (const RequestSnapshot& s : manager_.List(request->include_ended())) *reply->add_requests() = ToProto(s, worker_id_);
  return grpc::Status::OK;
}

}  // namespace riskkv::worker

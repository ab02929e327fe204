#include "services/worker/rpc/worker_service.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/net/status.h"
#include "fmt/format.h"
#include "services/worker/rpc/convert_move.h"
#include "services/worker/rpc/peer_tools.h"
#include "services/worker/rpc/request_convert.h"

namespace riskkv::worker {
namespace {

constexpr absl::Duration kEventWait = absl::Milliseconds(200);
constexpr int64_t kAdoptHeadroom = 1;

}  // namespace

grpc::Status WorkerService::Describe(grpc::ServerContext*, const v1::DescribeRequest*, v1::WorkerInfo* reply) {
  *reply = parts_.describer->Info();
  return grpc::Status::OK;
}

grpc::Status WorkerService::Reserve(grpc::ServerContext*, const v1::ReserveRequest* request, v1::ReserveReply* reply) {
  auto params = FromProto(*request);
  if (!params.ok()) return ToGrpc(WithContext(params.status(), "destination", "RESERVED"));
  auto cells = parts_.incoming->Reserve(*params);
  if (!cells.ok()) return ToGrpc(cells.status());
  reply->set_boot_id(parts_.incoming->boot_id());
  reply->set_cells_reserved(*cells);
  return grpc::Status::OK;
}

grpc::Status WorkerService::StartMove(grpc::ServerContext* context, const v1::StartMoveRequest* request,
                                      grpc::ServerWriter<v1::MoveEvent>* writer) {
  auto move = parts_.outgoing->Start(FromProto(*request));
  if (!move.ok()) return ToGrpc(move.status());
  // The stream breaking is not an abort: the attempt goes on without a reader.
  for (std::size_t number = 0; !context->IsCancelled();) {
    auto event = (*move)->Event(number, kEventWait);
    if (event.ok()) {
      if (!writer->Write(ToProto(*event))) break;
      ++number;
    } else if (!absl::IsDeadlineExceeded(event.status())) {
      return grpc::Status::OK;
    } else if (parts_.stopping != nullptr && *parts_.stopping) {
      return {grpc::StatusCode::UNAVAILABLE, "the worker is shutting down"};
    }
  }
  return grpc::Status::CANCELLED;
}

grpc::Status WorkerService::Decide(grpc::ServerContext*, const v1::DecideRequest* request, v1::DecideReply* reply) {
  const Fence fence = FromProto(request->fence());
  const DecisionInfo decision = FromProto(*request);
  // Told to both sides alike: the boots in the fence say which one this is.
  const bool out = parts_.outgoing->Decide(fence, decision);
  const bool in = !out && parts_.incoming->Decide(fence, decision);
  reply->set_known(out || in);
  return grpc::Status::OK;
}

grpc::Status WorkerService::QueryAttempt(grpc::ServerContext*, const v1::QueryAttemptRequest* request, v1::AttemptInfo* reply) {
  const Fence fence = FromProto(request->fence());
  AttemptInfo info = parts_.outgoing->Query(fence);
  if (!info.known) info = parts_.incoming->Query(fence);
  *reply = ToProto(info, parts_.incoming->boot_id());
  return grpc::Status::OK;
}

grpc::Status WorkerService::FetchSet(grpc::ServerContext*, const v1::FetchSetRequest* request, v1::FetchSetReply* reply) {
  auto fetched = worker::FetchSet(*parts_.predictors, *parts_.channels, request->digest(), {request->peers().begin(), request->peers().end()});
  if (!fetched.ok()) return ToGrpc(fetched.status());
  reply->set_already_held(fetched->already_held);
  reply->set_bytes(fetched->bytes);
  reply->set_seconds(fetched->seconds);
  if (!fetched->already_held && parts_.sets_changed) parts_.sets_changed();
  return grpc::Status::OK;
}

grpc::Status WorkerService::MeasureLink(grpc::ServerContext*, const v1::MeasureLinkRequest* request, v1::MeasureLinkReply* reply) {
  auto measure = worker::MeasureLink(*parts_.channels, request->address(), request->bytes());
  if (!measure.ok()) return ToGrpc(measure.status());
  reply->set_bytes_per_second(measure->bytes_per_second);
  reply->set_rtt_seconds(measure->rtt_seconds);
  return grpc::Status::OK;
}

grpc::Status WorkerService::Adopt(grpc::ServerContext*, const v1::AdoptRequest* request, v1::AdoptReply*) {
  return ToGrpc(AdoptHere(*request));
}

// The owner record names this worker already: replay, then decode and deliver from start_index.
absl::Status WorkerService::AdoptHere(const v1::AdoptRequest& r) {
  IncomingRequest request;
  request.id = r.request_id();
  ASSIGN_OR_RETURN(request.params, ParamsFromProto(r.sampling(), r.stop()));
  request.prompt.assign(r.prompt().begin(), r.prompt().end());
  for (const v1::TokenRecord& token : r.log()) request.log.push_back(FromProto(token));
  if (request.id.empty() || r.epoch() == 0 || request.prompt.empty() || r.start_index() != static_cast<int64_t>(request.log.size())) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT",
                     fmt::format("request '{}' epoch {}: {} prompt tokens, {} output tokens, start index {}", request.id, r.epoch(),
                                 request.prompt.size(), request.log.size(), r.start_index()));
  }
  std::vector<Token> history = request.prompt;
  for (const LoggedToken& token : request.log) history.push_back(token.token);
  const int64_t cells = static_cast<int64_t>(history.size()) - 1;
  const int64_t left = std::max<int64_t>(0, request.params.stop.max_tokens - r.start_index());
  ASSIGN_OR_RETURN(const ReservationId reservation, parts_.manager->Reserve(cells + left + kAdoptHeadroom));
  absl::Status status = parts_.manager->Prefill(reservation, history, cells);
  if (status.ok()) status = parts_.manager->Install(reservation, std::move(request));
  if (!status.ok()) {
    parts_.manager->Release(reservation);
    return status;
  }
  RETURN_IF_ERROR(parts_.manager->Activate(r.request_id(), r.epoch(), r.start_index()));
  return parts_.manager->AllowDelivery(r.request_id());
}

grpc::Status CalibrationService::ListPredictorSets(grpc::ServerContext*, const v1::ListPredictorSetsRequest*,
                                                   v1::ListPredictorSetsReply* reply) {
  for (const auto& set : predictors_->List()) *reply->add_sets() = ToProto(*set);
  return grpc::Status::OK;
}

}  // namespace riskkv::worker

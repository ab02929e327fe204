#include "services/worker/rpc/coordinator_client.h"

#include <utility>

#include "common/base/status.h"
#include "common/net/channel.h"
#include "common/net/status.h"
#include "services/worker/rpc/convert_move.h"

namespace riskkv::worker {
namespace {

constexpr absl::Duration kDecision = absl::Seconds(5);
constexpr absl::Duration kReport = absl::Seconds(1);

}  // namespace

CoordinatorClient::CoordinatorClient(std::string worker_id, std::vector<std::string> coordinators)
    : worker_id_(std::move(worker_id)), leader_(std::move(coordinators)) {}

absl::StatusOr<DecisionInfo> CoordinatorClient::Prepared(const Fence& fence, int64_t start_index, const PreparedStats& stats,
                                                         Cancellation* cancel) {
  grpc::ClientContext context;
  SetTimeout(context, kDecision);
  Cancellation::Hook hook(cancel, [&] { context.TryCancel(); });
  v1::PreparedRequest request;
  *request.mutable_fence() = ToProto(fence);
  request.set_start_index(start_index);
  request.mutable_stats()->set_rebuild_ms(stats.rebuild_ms);
  request.mutable_stats()->set_probe_error(stats.probe_error);
  v1::DecisionReply reply;
  const LeaderChannel::Choice to = leader_.Current();
  RETURN_IF_ERROR(leader_.Learn(
      to.address, FromGrpc(v1::Registry::NewStub(to.channel)->Prepared(&context, request, &reply), "Prepared at the coordinator")));
  return FromProto(reply);
}

absl::StatusOr<DecisionInfo> CoordinatorClient::Resumed(const Fence& fence, uint64_t new_epoch, Cancellation* cancel) {
  grpc::ClientContext context;
  SetTimeout(context, kDecision);
  Cancellation::Hook hook(cancel, [&] { context.TryCancel(); });
  v1::ResumedRequest request;
  *request.mutable_fence() = ToProto(fence);
  request.set_new_epoch(new_epoch);
  v1::DecisionReply reply;
  const LeaderChannel::Choice to = leader_.Current();
  RETURN_IF_ERROR(leader_.Learn(
      to.address, FromGrpc(v1::Registry::NewStub(to.channel)->Resumed(&context, request, &reply), "Resumed at the coordinator")));
  return FromProto(reply);
}

absl::StatusOr<DecisionInfo> CoordinatorClient::Resolve(const Fence& fence, bool give_up, bool destination, Cancellation* cancel) {
  grpc::ClientContext context;
  SetTimeout(context, kDecision);
  Cancellation::Hook hook(cancel, [&] { context.TryCancel(); });
  v1::ResolveRequest request;
  *request.mutable_fence() = ToProto(fence);
  request.set_give_up(give_up);
  request.set_side(destination ? v1::SIDE_DESTINATION : v1::SIDE_SOURCE);
  v1::DecisionReply reply;
  const LeaderChannel::Choice to = leader_.Current();
  RETURN_IF_ERROR(leader_.Learn(
      to.address, FromGrpc(v1::Registry::NewStub(to.channel)->Resolve(&context, request, &reply), "Resolve at the coordinator")));
  return FromProto(reply);
}

absl::Status CoordinatorClient::CancelRequest(const std::string& request_id, Cancellation* cancel) {
  grpc::ClientContext context;
  SetTimeout(context, kDecision);
  Cancellation::Hook hook(cancel, [&] { context.TryCancel(); });
  v1::CancelOwnedRequest request;
  request.set_request_id(request_id);
  v1::CancelOwnedReply reply;
  const LeaderChannel::Choice to = leader_.Current();
  return leader_.Learn(to.address, FromGrpc(v1::Registry::NewStub(to.channel)->CancelRequest(&context, request, &reply),
                                            "CancelRequest at the coordinator"));
}

void CoordinatorClient::ReportTransfer(const TransferResult& result) {
  grpc::ClientContext context;
  SetTimeout(context, kReport);
  v1::TransferReport report;
  report.set_source(worker_id_);
  report.set_destination(result.destination_id);
  report.set_bytes(result.bytes);
  report.set_seconds(result.seconds);
  report.set_rtt_seconds(result.rtt_seconds);
  v1::TransferReportReply reply;
  (void)v1::Registry::NewStub(leader_.Current().channel)->ReportTransfer(&context, report, &reply);
}

}  // namespace riskkv::worker

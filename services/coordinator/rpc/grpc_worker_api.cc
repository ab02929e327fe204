#include "services/coordinator/rpc/grpc_worker_api.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/net/channel.h"
#include "common/net/convert.h"
#include "common/net/status.h"
#include "fmt/format.h"
#include "riskkv/v1/generation.grpc.pb.h"
#include "riskkv/v1/worker.grpc.pb.h"
#include "services/coordinator/rpc/convert_job.h"
#include "services/coordinator/rpc/convert_worker.h"

namespace riskkv::coordinator {
namespace {

std::string What(const char* call, const WorkerName& worker) { return fmt::format("{} on {} ({})", call, worker.id, worker.address); }

absl::Duration AtLeast(absl::Duration timeout) { return std::max(timeout, absl::Milliseconds(1)); }

class GrpcMoveStream : public MoveStream {
 public:
  GrpcMoveStream(std::shared_ptr<grpc::Channel> channel, const v1::StartMoveRequest& request, std::string what)
      : stub_(v1::Worker::NewStub(std::move(channel))), what_(std::move(what)), reader_(stub_->StartMove(&context_, request)) {}

  std::unique_ptr<MoveEvent> Next() override {
    v1::MoveEvent event;
    if (!reader_->Read(&event)) return nullptr;
    return std::make_unique<MoveEvent>(FromProto(event));
  }
  absl::Status Finish() override { return FromGrpc(reader_->Finish(), what_); }
  void Cancel() override { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::Worker::Stub> stub_;
  const std::string what_;
  std::unique_ptr<grpc::ClientReader<v1::MoveEvent>> reader_;
};

}  // namespace

std::shared_ptr<grpc::Channel> GrpcWorkerApi::Channel(const std::string& address) {
  MutexLock lock(mu_);
  std::shared_ptr<grpc::Channel>& channel = channels_[address];
  if (!channel) channel = CreateChannel(address, ChannelKind::kControl);
  return channel;
}

absl::StatusOr<RequestInfo> GrpcWorkerApi::GetRequest(const WorkerName& worker, const std::string& request_id) {
  grpc::ClientContext context;
  SetTimeout(context, absl::Seconds(5));
  v1::GetRequestRequest request;
  request.set_request_id(request_id);
  v1::RequestInfo reply;
  RETURN_IF_ERROR(FromGrpc(v1::Generation::NewStub(Channel(worker.address))->GetRequest(&context, request, &reply),
                           What("GetRequest", worker)));
  return FromProto(reply);
}

absl::Status GrpcWorkerApi::Reserve(const WorkerName& destination, const ReserveArgs& args, absl::Duration timeout) {
  grpc::ClientContext context;
  SetTimeout(context, AtLeast(timeout));
  v1::ReserveRequest request;
  if (!request.ParseFromString(args.parameters)) {
    return MakeError(absl::StatusCode::kInternal, "INTERNAL_ERROR", "the request's sampling and stop parameters cannot be parsed");
  }
  *request.mutable_fence() = ToProto(args.fence);
  *request.mutable_fingerprint() = riskkv::ToProto(args.fingerprint);
  request.set_mode(static_cast<v1::Mode>(args.mode));
  request.set_predictor_set(args.predictor_set);
  request.set_profile(args.profile);
  request.set_n_kv(args.n_kv);
  request.set_growth(args.growth);
  request.set_headroom(args.headroom);
  request.set_lease_ms(absl::ToInt64Milliseconds(args.lease));
  v1::ReserveReply reply;
  RETURN_IF_ERROR(FromGrpc(v1::Worker::NewStub(Channel(destination.address))->Reserve(&context, request, &reply),
                           What("Reserve", destination)));
  if (reply.boot_id().empty() || reply.boot_id() == destination.boot_id) return absl::OkStatus();
  return MakeError(absl::StatusCode::kFailedPrecondition, "BOOT_ID_CHANGED",
                   fmt::format("worker {} at {} runs boot {}, expected {}", destination.id, destination.address, reply.boot_id(),
                               destination.boot_id));
}

std::unique_ptr<MoveStream> GrpcWorkerApi::StartMove(const WorkerName& source, const StartMoveArgs& args) {
  v1::StartMoveRequest request;
  *request.mutable_fence() = ToProto(args.fence);
  request.set_mode(static_cast<v1::Mode>(args.mode));
  request.set_predictor_set(args.predictor_set);
  request.set_profile(args.profile);
  request.set_destination_id(args.destination.id);
  request.set_destination_address(args.destination.address);
  request.set_destination_client_address(args.destination.for_clients());
  request.set_max_pause_ms(absl::ToInt64Milliseconds(args.max_pause));
  request.set_deadline_ms(absl::ToInt64Milliseconds(args.deadline));
  return std::make_unique<GrpcMoveStream>(Channel(source.address), request, What("StartMove", source));
}

absl::StatusOr<bool> GrpcWorkerApi::Decide(const WorkerName& worker, const DecideArgs& args, absl::Duration timeout) {
  grpc::ClientContext context;
  SetTimeout(context, AtLeast(timeout));
  v1::DecideReply reply;
  RETURN_IF_ERROR(FromGrpc(v1::Worker::NewStub(Channel(worker.address))->Decide(&context, ToProto(args), &reply),
                           What("Decide", worker)));
  return reply.known();
}

absl::StatusOr<AttemptInfo> GrpcWorkerApi::QueryAttempt(const WorkerName& worker, const Fence& fence, absl::Duration timeout) {
  grpc::ClientContext context;
  SetTimeout(context, AtLeast(timeout));
  v1::QueryAttemptRequest request;
  *request.mutable_fence() = ToProto(fence);
  v1::AttemptInfo reply;
  RETURN_IF_ERROR(FromGrpc(v1::Worker::NewStub(Channel(worker.address))->QueryAttempt(&context, request, &reply),
                           What("QueryAttempt", worker)));
  return AttemptInfo{.known = reply.known(),
                     .state = static_cast<MigrationState>(reply.state()),
                     .boot_id = reply.boot_id(),
                     .error = riskkv::FromProto(reply.error())};
}

absl::Status GrpcWorkerApi::FetchSet(const WorkerName& worker, const std::string& digest, const std::vector<std::string>& peers,
                                     absl::Duration timeout) {
  grpc::ClientContext context;
  SetTimeout(context, AtLeast(timeout));
  v1::FetchSetRequest request;
  request.set_digest(digest);
  for (const std::string& peer : peers) request.add_peers(peer);
  v1::FetchSetReply reply;
  return FromGrpc(v1::Worker::NewStub(Channel(worker.address))->FetchSet(&context, request, &reply), What("FetchSet", worker));
}

absl::StatusOr<LinkSample> GrpcWorkerApi::MeasureLink(const WorkerName& source, const std::string& address, absl::Duration timeout) {
  grpc::ClientContext context;
  SetTimeout(context, AtLeast(timeout));
  v1::MeasureLinkRequest request;
  request.set_address(address);
  v1::MeasureLinkReply reply;
  RETURN_IF_ERROR(FromGrpc(v1::Worker::NewStub(Channel(source.address))->MeasureLink(&context, request, &reply),
                           What("MeasureLink", source)));
  return LinkSample{.bytes_per_second = reply.bytes_per_second(), .rtt_seconds = reply.rtt_seconds()};
}

absl::Status GrpcWorkerApi::Adopt(const WorkerName& worker, const AdoptArgs& args, absl::Duration timeout) {
  v1::RecoverRequest recover;
  if (!recover.ParseFromString(args.recover_request)) {
    return MakeError(absl::StatusCode::kInternal, "INTERNAL_ERROR", "the recovered request's tokens cannot be parsed");
  }
  grpc::ClientContext context;
  SetTimeout(context, AtLeast(timeout));
  v1::AdoptRequest request;
  request.set_request_id(args.request_id);
  request.set_epoch(args.epoch);
  request.set_start_index(args.start_index);
  request.mutable_prompt()->Swap(recover.mutable_prompt());
  request.mutable_log()->Swap(recover.mutable_log());
  *request.mutable_sampling() = recover.sampling();
  *request.mutable_stop() = recover.stop();
  v1::AdoptReply reply;
  return FromGrpc(v1::Worker::NewStub(Channel(worker.address))->Adopt(&context, request, &reply), What("Adopt", worker));
}

absl::StatusOr<WorkerInfo> GrpcWorkerApi::Describe(const WorkerName& worker, absl::Duration timeout) {
  grpc::ClientContext context;
  SetTimeout(context, AtLeast(timeout));
  v1::WorkerInfo reply;
  RETURN_IF_ERROR(FromGrpc(v1::Worker::NewStub(Channel(worker.address))->Describe(&context, v1::DescribeRequest(), &reply),
                           What("Describe", worker)));
  return FromProto(reply);
}

}  // namespace riskkv::coordinator

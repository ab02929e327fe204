#include "tests/integration/etcd/moving_workers.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/base/status.h"
#include "common/net/channel.h"
#include "common/net/convert.h"
#include "common/net/status.h"

namespace riskkv::testing {
namespace {

constexpr absl::Duration kCall = absl::Seconds(5);
constexpr absl::Duration kAgain = absl::Milliseconds(100);

}  // namespace

MovingWorkers::MovingWorkers(std::vector<std::string> coordinators) : leader_(std::move(coordinators)) {
  ServerOptions options;
  options.services = {static_cast<v1::Worker::Service*>(this), static_cast<v1::Generation::Service*>(this)};
  server_ = RpcServer::Start(options).value();
  for (const char* id : {"A", "B"}) threads_.emplace_back([this, id = std::string(id)] { KeepRegistered(id); });
}

MovingWorkers::~MovingWorkers() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
  server_->Shutdown(absl::Seconds(1));
}

// A registration renews the lease as well as a renewal does.
void MovingWorkers::KeepRegistered(const std::string& id) {
  v1::RegisterRequest request;
  v1::WorkerInfo* info = request.mutable_worker();
  info->set_worker_id(id);
  info->set_boot_id("boot" + id);
  info->set_address(server_->address());
  Fingerprint fingerprint;
  fingerprint.architecture = "llama";
  fingerprint.layout = {.n_layer = 30, .n_head_kv = 3, .head_dim = 64};
  *info->mutable_fingerprint() = ToProto(fingerprint);
  info->mutable_load()->set_cells_total(1000);
  info->set_serving(true);
  while (!stop_) {
    const LeaderChannel::Choice to = leader_.Current();
    grpc::ClientContext context;
    SetTimeout(context, kCall);
    v1::RegisterReply reply;
    (void)leader_.Learn(to.address, FromGrpc(v1::Registry::NewStub(to.channel)->Register(&context, request, &reply)));
    absl::SleepFor(kAgain);
  }
}

std::optional<v1::Fence> MovingWorkers::fence() const {
  MutexLock lock(mu_);
  return fence_;
}

template <typename Call>
v1::DecisionReply MovingWorkers::AskUntilDecided(absl::Duration timeout, Call call) {
  const absl::Time until = absl::Now() + timeout;
  while (absl::Now() < until) {
    const LeaderChannel::Choice to = leader_.Current();
    grpc::ClientContext context;
    SetTimeout(context, kCall);
    v1::DecisionReply reply;
    auto stub = v1::Registry::NewStub(to.channel);
    if (leader_.Learn(to.address, FromGrpc(call(*stub, &context, &reply))).ok()) return reply;
    absl::SleepFor(kAgain);
  }
  return {};
}

v1::DecisionReply MovingWorkers::Prepared(absl::Duration timeout) {
  v1::PreparedRequest request;
  *request.mutable_fence() = *fence();
  request.set_start_index(12);
  v1::DecisionReply reply = AskUntilDecided(timeout, [&](v1::Registry::Stub& stub, grpc::ClientContext* context, v1::DecisionReply* out) {
    return stub.Prepared(context, request, out);
  });
  if (reply.decision() == v1::DECISION_COMMITTED) prepared_ = true;
  return reply;
}

v1::DecisionReply MovingWorkers::Resumed(uint64_t epoch, absl::Duration timeout) {
  v1::ResumedRequest request;
  *request.mutable_fence() = *fence();
  request.set_new_epoch(epoch);
  epoch_ = epoch;
  return AskUntilDecided(timeout, [&](v1::Registry::Stub& stub, grpc::ClientContext* context, v1::DecisionReply* out) {
    return stub.Resumed(context, request, out);
  });
}

absl::StatusOr<v1::DecisionReply> MovingWorkers::PreparedAt(const std::string& coordinator, const v1::Fence& fence) {
  v1::PreparedRequest request;
  *request.mutable_fence() = fence;
  request.set_start_index(12);
  grpc::ClientContext context;
  SetTimeout(context, kCall);
  v1::DecisionReply reply;
  auto stub = v1::Registry::NewStub(CreateChannel(coordinator, ChannelKind::kBulk));
  RETURN_IF_ERROR(FromGrpc(stub->Prepared(&context, request, &reply)));
  return reply;
}

grpc::Status MovingWorkers::GetRequest(grpc::ServerContext*, const v1::GetRequestRequest* request, v1::RequestInfo* reply) {
  if (request->request_id() != kMovingRequest) {
    return ToGrpc(MakeError(absl::StatusCode::kNotFound, "UNKNOWN_REQUEST", "request " + request->request_id()));
  }
  reply->set_request_id(kMovingRequest);
  reply->set_epoch(epoch_);
  reply->set_state(v1::REQUEST_STATE_DECODING);
  reply->set_prompt_tokens(500);
  reply->set_output_tokens(10);
  reply->set_n_kv(509);
  reply->set_max_tokens(100);
  return grpc::Status::OK;
}

grpc::Status MovingWorkers::Reserve(grpc::ServerContext*, const v1::ReserveRequest* request, v1::ReserveReply* reply) {
  reply->set_boot_id(request->fence().destination_boot_id());
  return grpc::Status::OK;
}

grpc::Status MovingWorkers::Decide(grpc::ServerContext*, const v1::DecideRequest*, v1::DecideReply* reply) {
  reply->set_known(true);
  return grpc::Status::OK;
}

grpc::Status MovingWorkers::QueryAttempt(grpc::ServerContext*, const v1::QueryAttemptRequest* request, v1::AttemptInfo* reply) {
  MutexLock lock(mu_);
  reply->set_known(fence_ && fence_->migration_id() == request->fence().migration_id() &&
                   fence_->attempt() == request->fence().attempt());
  reply->set_state(v1::MIGRATION_STATE_FINAL);
  return grpc::Status::OK;
}

grpc::Status MovingWorkers::MeasureLink(grpc::ServerContext*, const v1::MeasureLinkRequest*, v1::MeasureLinkReply* reply) {
  reply->set_bytes_per_second(2e8);
  reply->set_rtt_seconds(0.001);
  return grpc::Status::OK;
}

grpc::Status MovingWorkers::StartMove(grpc::ServerContext* context, const v1::StartMoveRequest* request,
                                      grpc::ServerWriter<v1::MoveEvent>* writer) {
  {
    MutexLock lock(mu_);
    fence_ = request->fence();
  }
  ++starts_;
  v1::MoveEvent event;
  event.set_state(v1::MIGRATION_STATE_PRECOPY);
  event.mutable_round()->set_round(1);
  writer->Write(event);
  event.Clear();
  event.set_state(v1::MIGRATION_STATE_FINAL);
  writer->Write(event);
  while (!prepared_ && !context->IsCancelled() && !stop_) absl::SleepFor(absl::Milliseconds(5));
  if (!prepared_) return grpc::Status::CANCELLED;
  event.Clear();
  event.set_state(v1::MIGRATION_STATE_PREPARED);
  event.mutable_prepared()->set_bytes_sent(777);
  writer->Write(event);
  return grpc::Status::OK;
}

}  // namespace riskkv::testing

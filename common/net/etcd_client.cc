#include "common/net/etcd_client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/status.h"
#include "common/net/channel.h"
#include "common/net/server.h"
#include "etcd/rpc.grpc.pb.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace riskkv {
namespace {

namespace pb = ::etcdserverpb;

constexpr std::string_view kEtcdScheme = "etcd:";
constexpr int kMostReplyBytes = 64 << 20;

std::shared_ptr<grpc::Channel> EtcdChannel(const std::string& endpoint) {
  grpc::ChannelArguments args;
  // etcd takes a ping every 5 s and hangs up on who sends more.
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3000);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A new channel is to be a new connection: the old one may be half open.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetMaxReceiveMessageSize(kMostReplyBytes);
  return grpc::CreateCustomChannel(endpoint, grpc::InsecureChannelCredentials(), args);
}

etcd::KeyValue FromPb(const mvccpb::KeyValue& kv) {
  return {.key = kv.key(), .value = kv.value(), .create_revision = kv.create_revision(), .mod_revision = kv.mod_revision()};
}

std::vector<etcd::KeyValue> FromPb(const pb::RangeResponse& reply) {
  std::vector<etcd::KeyValue> kvs;
  kvs.reserve(static_cast<std::size_t>(reply.kvs_size()));
  for (const mvccpb::KeyValue& kv : reply.kvs()) kvs.push_back(FromPb(kv));
  return kvs;
}

void Fill(const etcd::Compare& compare, pb::Compare* out) {
  out->set_result(pb::Compare::EQUAL);
  out->set_key(compare.key);
  out->set_range_end(compare.range_end);
  switch (compare.target) {
    case etcd::Compare::Target::kCreateRevision:
      out->set_target(pb::Compare::CREATE);
      out->set_create_revision(compare.revision);
      return;
    case etcd::Compare::Target::kModRevision:
      out->set_target(pb::Compare::MOD);
      out->set_mod_revision(compare.revision);
      return;
    case etcd::Compare::Target::kValue:
      out->set_target(pb::Compare::VALUE);
      out->set_value(compare.value);
  }
}

void Fill(const etcd::Op& op, pb::RequestOp* out) {
  switch (op.kind) {
    case etcd::Op::Kind::kPut:
      out->mutable_request_put()->set_key(op.key);
      out->mutable_request_put()->set_value(op.value);
      out->mutable_request_put()->set_lease(op.lease);
      return;
    case etcd::Op::Kind::kDelete:
      out->mutable_request_delete_range()->set_key(op.key);
      return;
    case etcd::Op::Kind::kRange:
      out->mutable_request_range()->set_key(op.key);
  }
}

absl::Status BadSpec(std::string_view spec, std::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT", fmt::format("store '{}': {}", spec, why));
}

}  // namespace

bool IsEtcdSpec(std::string_view spec) { return spec.rfind(kEtcdScheme, 0) == 0; }

absl::StatusOr<EtcdOptions> ParseEtcdSpec(std::string_view spec) {
  if (!IsEtcdSpec(spec)) return BadSpec(spec, "does not begin with etcd:");
  std::string_view rest = spec.substr(kEtcdScheme.size());
  EtcdOptions options;
  if (auto slash = rest.find('/'); slash != std::string_view::npos) {
    options.prefix = std::string(rest.substr(slash + 1));
    while (!options.prefix.empty() && options.prefix.back() == '/') options.prefix.pop_back();
    if (options.prefix.empty()) return BadSpec(spec, "the prefix after '/' is empty");
    options.prefix += '/';
    rest = rest.substr(0, slash);
  }
  for (;;) {
    auto comma = rest.find(',');
    options.endpoints.emplace_back(rest.substr(0, comma));
    if (!HostOf(options.endpoints.back()).ok()) return BadSpec(spec, fmt::format("'{}' is not HOST:PORT", options.endpoints.back()));
    if (comma == std::string_view::npos) return options;
    rest = rest.substr(comma + 1);
  }
}

EtcdClient::EtcdClient(EtcdOptions options)
    : options_(std::move(options)), name_(fmt::format("etcd:{}", fmt::join(options_.endpoints, ","))) {}

std::shared_ptr<grpc::Channel> EtcdClient::Channel(std::size_t* member) {
  std::shared_ptr<grpc::Channel> channel;
  {
    MutexLock lock(mu_);
    *member = current_;
    if (!channel_) channel_ = EtcdChannel(options_.endpoints[current_]);
    channel = channel_;
  }
  // A call on a channel that is connecting fails at once, and in a process without a server nobody else would drive the connection.
  if (channel->GetState(/*try_to_connect=*/true) != GRPC_CHANNEL_READY) {
    channel->WaitForConnected(std::chrono::system_clock::now() + absl::ToChronoNanoseconds(options_.timeout / 4));
  }
  return channel;
}

absl::Status EtcdClient::Judge(const grpc::Status& status, std::size_t member, const char* call, bool in_doubt) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = fmt::format("{} at etcd {}: {}", call, options_.endpoints[member], status.error_message());
  // "database space exceeded", "request is too large": refused as a whole. "too many requests" is the one that passes.
  const bool no_room = status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED || status.error_code() == grpc::StatusCode::INVALID_ARGUMENT;
  if (no_room && status.error_message().find("too many requests") == std::string::npos) {
    return MakeError(absl::StatusCode::kResourceExhausted, "DISK_FULL", message);
  }
  {
    MutexLock lock(mu_);
    if (current_ == member) {
      current_ = (current_ + 1) % options_.endpoints.size();
      // Refused connections are tried again by the channel itself; one that is silent is given up.
      if (options_.endpoints.size() > 1 || status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) channel_.reset();
    }
  }
  absl::Status error = MakeError(absl::StatusCode::kUnavailable, "STORE_UNAVAILABLE", message);
  ErrorDetail detail = *GetDetail(error);
  detail.in_doubt = in_doubt;
  SetDetail(error, detail);
  return error;
}

absl::StatusOr<etcd::RangeReply> EtcdClient::Range(const etcd::RangeQuery& query) {
  grpc::ClientContext context;
  SetTimeout(context, options_.timeout);
  pb::RangeRequest request;
  request.set_key(query.key);
  request.set_range_end(query.range_end);
  request.set_limit(query.limit);
  request.set_revision(query.revision);
  pb::RangeResponse reply;
  std::size_t member = 0;
  auto stub = pb::KV::NewStub(Channel(&member));
  RETURN_IF_ERROR(Judge(stub->Range(&context, request, &reply), member, "Range", /*in_doubt=*/false));
  return etcd::RangeReply{.kvs = FromPb(reply), .more = reply.more(), .revision = reply.header().revision()};
}

absl::StatusOr<etcd::TxnReply> EtcdClient::Txn(const etcd::TxnRequest& txn) {
  grpc::ClientContext context;
  SetTimeout(context, options_.timeout);
  pb::TxnRequest request;
  for (const etcd::Compare& compare : txn.compares) Fill(compare, request.add_compare());
  for (const etcd::Op& op : txn.success) Fill(op, request.add_success());
  for (const etcd::Op& op : txn.failure) Fill(op, request.add_failure());
  auto reads = [](const std::vector<etcd::Op>& ops) {
    return std::all_of(ops.begin(), ops.end(), [](const etcd::Op& op) { return op.kind == etcd::Op::Kind::kRange; });
  };
  pb::TxnResponse reply;
  std::size_t member = 0;
  auto stub = pb::KV::NewStub(Channel(&member));
  RETURN_IF_ERROR(Judge(stub->Txn(&context, request, &reply), member, "Txn", /*in_doubt=*/!reads(txn.success) || !reads(txn.failure)));
  etcd::TxnReply result{.succeeded = reply.succeeded(), .revision = reply.header().revision()};
  for (const pb::ResponseOp& response : reply.responses()) result.found.push_back(FromPb(response.response_range()));
  return result;
}

absl::StatusOr<etcd::LeaseGrant> EtcdClient::Grant(absl::Duration ttl) {
  grpc::ClientContext context;
  SetTimeout(context, options_.timeout);
  pb::LeaseGrantRequest request;
  request.set_ttl(std::max<int64_t>(1, absl::ToInt64Seconds(absl::Ceil(ttl, absl::Seconds(1)))));
  pb::LeaseGrantResponse reply;
  std::size_t member = 0;
  auto stub = pb::Lease::NewStub(Channel(&member));
  RETURN_IF_ERROR(Judge(stub->LeaseGrant(&context, request, &reply), member, "LeaseGrant", /*in_doubt=*/false));
  return etcd::LeaseGrant{.id = reply.id(), .ttl = absl::Seconds(reply.ttl())};
}

absl::StatusOr<absl::Duration> EtcdClient::KeepAlive(int64_t lease) {
  grpc::ClientContext context;
  SetTimeout(context, options_.timeout);
  std::size_t member = 0;
  auto stub = pb::Lease::NewStub(Channel(&member));
  auto stream = stub->LeaseKeepAlive(&context);
  pb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  pb::LeaseKeepAliveResponse reply;
  const bool answered = stream->Write(request) && stream->Read(&reply);
  stream->WritesDone();
  if (answered) {
    context.TryCancel();
    (void)stream->Finish();
    return absl::Seconds(reply.ttl());
  }
  grpc::Status status = stream->Finish();
  if (status.ok()) status = {grpc::StatusCode::UNAVAILABLE, "the stream ended without an answer"};
  return Judge(status, member, "LeaseKeepAlive", /*in_doubt=*/false);
}

absl::Status EtcdClient::Revoke(int64_t lease) {
  grpc::ClientContext context;
  SetTimeout(context, options_.timeout);
  pb::LeaseRevokeRequest request;
  request.set_id(lease);
  pb::LeaseRevokeResponse reply;
  std::size_t member = 0;
  auto stub = pb::Lease::NewStub(Channel(&member));
  grpc::Status status = stub->LeaseRevoke(&context, request, &reply);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) return absl::OkStatus();
  return Judge(status, member, "LeaseRevoke", /*in_doubt=*/false);
}

}  // namespace riskkv

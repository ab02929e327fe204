#include "services/worker/rpc/peer_client.h"

#include <algorithm>

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/net/status.h"
#include "fmt/format.h"
#include "riskkv/v1/transfer.grpc.pb.h"
#include "services/worker/rpc/convert_move.h"

namespace riskkv::worker {
namespace {

constexpr absl::Duration kCall = absl::Seconds(5);
constexpr absl::Duration kPush = absl::Seconds(60);
constexpr absl::Duration kFinal = absl::Seconds(60);  // then the source is in doubt and asks the coordinator
constexpr absl::Duration kAbort = absl::Seconds(1);
constexpr std::size_t kMaxMessage = (4 << 20) - 4096;  // gRPC's default limit of what a server receives

class GrpcPeer final : public DestinationPeer {
 public:
  GrpcPeer(PeerChannels* channels, const std::string& address)
      : address_(address),
        limit_(&channels->limit()),
        control_(v1::Transfer::NewStub(channels->Get(address, ChannelKind::kControl))),
        bulk_(v1::Transfer::NewStub(channels->Get(address, ChannelKind::kBulk))) {}

  absl::StatusOr<RoundReply> DeclareRound(const RoundManifest& manifest, Cancellation* cancel) override {
    grpc::ClientContext context;
    SetTimeout(context, kCall);
    Cancellation::Hook hook(cancel, [&] { context.TryCancel(); });
    v1::RoundReply reply;
    RETURN_IF_ERROR(Checked(control_->DeclareRound(&context, ToProto(manifest), &reply), "DeclareRound"));
    return FromProto(reply);
  }

  absl::StatusOr<PushReply> Push(const Fence& fence, std::span<const SegmentPayload> segments, Cancellation* cancel) override {
    grpc::ClientContext context;
    SetTimeout(context, kPush);
    Cancellation::Hook hook(cancel, [&] { context.TryCancel(); });
    v1::PushReply reply;
    auto writer = bulk_->Push(&context, &reply);
    bool going = true;
    for (const SegmentPayload& segment : segments) {
      if (!going) break;
      going = WriteSegment(fence, segment, *writer);
    }
    if (segments.empty()) writer->Write(Head(fence));
    writer->WritesDone();
    RETURN_IF_ERROR(Checked(writer->Finish(), "Push"));
    return FromProto(reply);
  }

  absl::StatusOr<FinalReply> Final(const FinalRequest& request, Cancellation* cancel) override {
    const v1::FinalRequest message = ToProto(request);
    if (message.ByteSizeLong() > kMaxMessage) {
      // Side "source": it never left, so nobody is in doubt.
      return WithContext(MakeError(absl::StatusCode::kFailedPrecondition, "STATE_NOT_TRANSFERABLE",
                                   fmt::format("the request's log takes {} bytes, one message carries {}: ask for fewer logprobs",
                                               message.ByteSizeLong(), kMaxMessage)),
                         "source", "FINAL");
    }
    grpc::ClientContext context;
    SetTimeout(context, kFinal);
    Cancellation::Hook hook(cancel, [&] { context.TryCancel(); });
    v1::FinalReply reply;
    RETURN_IF_ERROR(Checked(control_->Final(&context, message, &reply), "Final"));
    return FromProto(reply);
  }

  void Abort(const Fence& fence, const absl::Status& reason) override {
    grpc::ClientContext context;
    SetTimeout(context, kAbort);
    v1::AbortTransferRequest request;
    *request.mutable_fence() = ToProto(fence);
    *request.mutable_reason() = riskkv::ToProto(reason);
    v1::AbortTransferReply reply;
    (void)control_->AbortTransfer(&context, request, &reply);  // its lease frees what this does not reach
  }

 private:
  absl::Status Checked(const grpc::Status& status, const char* call) const {
    return FromGrpc(status, fmt::format("{} on {}", call, address_));
  }

  static v1::Frame Head(const Fence& fence) {
    v1::Frame frame;
    frame.set_migration_id(fence.migration_id);
    frame.set_attempt(fence.attempt);
    frame.set_epoch(fence.epoch);
    return frame;
  }

  bool WriteSegment(const Fence& fence, const SegmentPayload& segment, grpc::ClientWriter<v1::Frame>& writer) const {
    v1::Frame frame = Head(fence);
    frame.set_segment(segment.id);
    for (std::size_t at = 0; at < segment.bytes.size(); at += kMaxFramePayload) {
      const std::string_view piece = segment.bytes.substr(at, kMaxFramePayload);
      frame.set_offset(static_cast<int64_t>(at));
      frame.set_length(static_cast<int64_t>(piece.size()));
      frame.set_xxh3(Xxh3(piece.data(), piece.size()));
      frame.set_payload(piece.data(), piece.size());
      limit_->Take(static_cast<int64_t>(piece.size()));
      if (!writer.Write(frame)) return false;
    }
    return true;
  }

  const std::string address_;
  EgressLimit* const limit_;
  const std::unique_ptr<v1::Transfer::Stub> control_;
  const std::unique_ptr<v1::Transfer::Stub> bulk_;
};

}  // namespace

std::shared_ptr<grpc::Channel> PeerChannels::Get(const std::string& address, ChannelKind kind) {
  MutexLock lock(mu_);
  std::shared_ptr<grpc::Channel>& channel = channels_[{address, kind}];
  if (channel == nullptr) channel = CreateChannel(address, kind);
  return channel;
}

std::unique_ptr<DestinationPeer> ConnectPeer(PeerChannels* channels, const std::string& address) {
  return std::make_unique<GrpcPeer>(channels, address);
}

}  // namespace riskkv::worker

#include "services/worker/rpc/peer_tools.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/net/status.h"
#include "fmt/format.h"
#include "riskkv/v1/transfer.grpc.pb.h"

namespace riskkv::worker {
namespace {

constexpr absl::Duration kFetch = absl::Seconds(120);
constexpr absl::Duration kMeasure = absl::Seconds(30);
constexpr int64_t kMaxSetBytes = 4LL << 30;
constexpr int64_t kMeasureBytes = 4 << 20;
constexpr int64_t kMaxMeasureBytes = 1 << 30;
constexpr int kPings = 3;

absl::Status CheckChunk(const v1::PredictorSetChunk& chunk, std::size_t have) {
  const std::string& payload = chunk.payload();
  if (chunk.total_bytes() <= 0 || chunk.total_bytes() > kMaxSetBytes || chunk.offset() != static_cast<int64_t>(have) ||
      chunk.offset() + static_cast<int64_t>(payload.size()) > chunk.total_bytes()) {
    return MakeError(absl::StatusCode::kDataLoss, "BAD_RANGE",
                     fmt::format("chunk of {} bytes at {} of {}, {} are there", payload.size(), chunk.offset(), chunk.total_bytes(), have));
  }
  if (Xxh3(payload.data(), payload.size()) == chunk.xxh3()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kDataLoss, "CHECKSUM", fmt::format("chunk at {} is damaged", chunk.offset()));
}

absl::StatusOr<std::string> FetchFrom(PeerChannels& channels, const std::string& address, const std::string& digest) {
  auto stub = v1::Transfer::NewStub(channels.Get(address, ChannelKind::kBulk));
  grpc::ClientContext context;
  SetTimeout(context, kFetch);
  v1::FetchPredictorSetRequest request;
  request.set_digest(digest);
  auto reader = stub->FetchPredictorSet(&context, request);
  std::string bytes;
  v1::PredictorSetChunk chunk;
  absl::Status bad;
  while (reader->Read(&chunk)) {
    bad = CheckChunk(chunk, bytes.size());
    if (!bad.ok()) {
      context.TryCancel();
      break;
    }
    bytes += chunk.payload();
  }
  const grpc::Status status = reader->Finish();
  RETURN_IF_ERROR(bad);
  RETURN_IF_ERROR(FromGrpc(status, fmt::format("set {} from {}", digest, address)));
  return bytes;
}

// Seconds until `bytes` have been swallowed.
absl::StatusOr<double> SendToSink(v1::Transfer::Stub& stub, EgressLimit& limit, int64_t bytes) {
  grpc::ClientContext context;
  SetTimeout(context, kMeasure);
  const absl::Time start = absl::Now();
  v1::SinkReply reply;
  auto writer = stub.Sink(&context, &reply);
  v1::SinkChunk chunk;
  for (int64_t left = bytes; left > 0; left -= kMaxFramePayload) {
    chunk.mutable_payload()->resize(static_cast<std::size_t>(std::min(left, kMaxFramePayload)));
    limit.Take(static_cast<int64_t>(chunk.payload().size()));
    if (!writer->Write(chunk)) break;
  }
  writer->WritesDone();
  RETURN_IF_ERROR(FromGrpc(writer->Finish(), "Sink"));
  return absl::ToDoubleSeconds(absl::Now() - start);
}

}  // namespace

absl::StatusOr<FetchedSet> FetchSet(PredictorStore& store, PeerChannels& channels, const std::string& digest,
                                    const std::vector<std::string>& peers) {
  if (store.Has(digest)) return FetchedSet{true, 0, 0};
  const absl::Time start = absl::Now();
  absl::Status last = MakeError(absl::StatusCode::kNotFound, "PREDICTOR_MISSING", fmt::format("no peer was named that holds set {}", digest));
  for (const std::string& peer : peers) {
    auto bytes = FetchFrom(channels, peer, digest);
    if (!bytes.ok()) {
      last = bytes.status();
      continue;
    }
    const int64_t size = static_cast<int64_t>(bytes->size());
    auto added = store.Add(digest, *std::move(bytes));
    if (added.ok()) return FetchedSet{false, size, absl::ToDoubleSeconds(absl::Now() - start)};
    last = Annotate(added.status(), fmt::format("from {}", peer));
  }
  return last;
}

absl::StatusOr<LinkMeasure> MeasureLink(PeerChannels& channels, const std::string& address, int64_t bytes) {
  if (bytes == 0) bytes = kMeasureBytes;
  if (bytes < 0 || bytes > kMaxMeasureBytes) {
    return MakeError(absl::StatusCode::kInvalidArgument, "BAD_RANGE", fmt::format("{} bytes to measure with, 1 to {}", bytes, kMaxMeasureBytes));
  }
  auto stub = v1::Transfer::NewStub(channels.Get(address, ChannelKind::kBulk));
  LinkMeasure measure;
  for (int i = 0; i < kPings; ++i) {  // the first one also connects
    ASSIGN_OR_RETURN(const double rtt, SendToSink(*stub, channels.limit(), 1));
    measure.rtt_seconds = i == 0 ? rtt : std::min(measure.rtt_seconds, rtt);
  }
  ASSIGN_OR_RETURN(const double seconds, SendToSink(*stub, channels.limit(), bytes));
  measure.bytes_per_second = static_cast<double>(bytes) / std::max(seconds - measure.rtt_seconds / 2, 1e-6);
  return measure;
}

}  // namespace riskkv::worker

#include "services/worker/rpc/transfer_service.h"

#include "common/base/digest.h"
#include "common/base/status.h"
#include "common/net/status.h"
#include "fmt/format.h"
#include "services/worker/rpc/convert_move.h"

namespace riskkv::worker {

grpc::Status TransferService::DeclareRound(grpc::ServerContext*, const v1::RoundManifest* request, v1::RoundReply* reply) {
  auto round = incoming_->DeclareRound(FromProto(*request));
  if (!round.ok()) return ToGrpc(round.status());
  *reply = ToProto(*round);
  return grpc::Status::OK;
}

grpc::Status TransferService::Push(grpc::ServerContext*, grpc::ServerReader<v1::Frame>* reader, v1::PushReply* reply) {
  IncomingMoves::Push push(incoming_);
  v1::Frame frame;
  while (reader->Read(&frame)) {
    if (absl::Status status = push.Accept(FromProto(frame)); !status.ok()) return ToGrpc(status);
  }
  auto taken = push.Finish();
  if (!taken.ok()) return ToGrpc(taken.status());
  *reply = ToProto(*taken);
  return grpc::Status::OK;
}

grpc::Status TransferService::Final(grpc::ServerContext*, const v1::FinalRequest* request, v1::FinalReply* reply) {
  auto final = FromProto(*request);
  if (!final.ok()) return ToGrpc(WithContext(final.status(), "destination", "FINAL"));
  auto prepared = incoming_->Final(*final);
  if (!prepared.ok()) return ToGrpc(prepared.status());
  *reply = ToProto(*prepared);
  return grpc::Status::OK;
}

grpc::Status TransferService::AbortTransfer(grpc::ServerContext*, const v1::AbortTransferRequest* request,
                                            v1::AbortTransferReply* reply) {
  reply->set_held(incoming_->Abort(FromProto(request->fence()), riskkv::FromProto(request->reason())));
  return grpc::Status::OK;
}

grpc::Status TransferService::FetchPredictorSet(grpc::ServerContext*, const v1::FetchPredictorSetRequest* request,
                                                grpc::ServerWriter<v1::PredictorSetChunk>* writer) {
  auto held = predictors_->Get(request->digest());
  if (!held.ok()) return ToGrpc(held.status());
  const std::string_view bytes = (*held)->set->bytes();
  const int64_t total = static_cast<int64_t>(bytes.size());
  if (request->offset() < 0 || request->offset() > total) {
    return ToGrpc(MakeError(absl::StatusCode::kInvalidArgument, "BAD_RANGE",
                            fmt::format("offset {} in a set of {} bytes", request->offset(), total)));
  }
  v1::PredictorSetChunk chunk;
  chunk.set_total_bytes(total);
  for (int64_t at = request->offset(); at < total; at += kMaxFramePayload) {
    const std::string_view piece = bytes.substr(static_cast<std::size_t>(at), kMaxFramePayload);
    chunk.set_offset(at);
    chunk.set_xxh3(Xxh3(piece.data(), piece.size()));
    chunk.set_payload(piece.data(), piece.size());
    limit_->Take(static_cast<int64_t>(piece.size()));
    if (!writer->Write(chunk)) return grpc::Status::CANCELLED;
  }
  return grpc::Status::OK;
}

grpc::Status TransferService::Sink(grpc::ServerContext*, grpc::ServerReader<v1::SinkChunk>* reader, v1::SinkReply* reply) {
  int64_t bytes = 0;
  v1::SinkChunk chunk;
  while (reader->Read(&chunk)) bytes += static_cast<int64_t>(chunk.payload().size());
  reply->set_bytes(bytes);
  return grpc::Status::OK;
}

}  // namespace riskkv::worker

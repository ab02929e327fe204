#include "common/net/status.h"

#include "gtest/gtest.h"

namespace riskkv {
namespace {

TEST(GrpcStatus, DetailCrossesTheWire) {
  absl::Status s = MakeError(absl::StatusCode::kFailedPrecondition, "MODEL_MISMATCH", "n_layer: 30 here, 24 there");
  s = WithContext(s, "destination", "RESERVED");
  absl::Status back = FromGrpc(ToGrpc(s));
  EXPECT_EQ(back.code(), s.code());
  EXPECT_EQ(back.message(), s.message());
  EXPECT_EQ(ReasonOf(back), "MODEL_MISMATCH");
  EXPECT_EQ(GetDetail(back)->side, "destination");
  EXPECT_EQ(GetDetail(back)->stage, "RESERVED");
}

TEST(GrpcStatus, OkStaysOk) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
  EXPECT_TRUE(FromProto(v1::ErrorDetail{}).ok());
}

TEST(GrpcStatus, BareTransportErrorsGetAReason) {
  EXPECT_EQ(ReasonOf(FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "connect failed"))), "PEER_UNREACHABLE");
  EXPECT_EQ(ReasonOf(FromGrpc(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "late"))), "NO_PROGRESS");
  EXPECT_EQ(ReasonOf(FromGrpc(grpc::Status(grpc::StatusCode::INTERNAL, "x"))), "");
}

TEST(GrpcStatus, UnknownReasonNamesDoNotBreakTheConversion) {
  absl::Status s = MakeError(absl::StatusCode::kInternal, "NOT_IN_THE_PROTO", "m");
  EXPECT_EQ(ToProto(s).reason(), v1::REASON_UNSPECIFIED);
  EXPECT_EQ(FromGrpc(ToGrpc(s)).message(), "m");
}

TEST(GrpcStatus, GarbageInTheDetailsIsIgnored) {
  grpc::Status garbage(grpc::StatusCode::ABORTED, "m", std::string("\xff\x01garbage", 9));
  EXPECT_EQ(FromGrpc(garbage).code(), absl::StatusCode::kAborted);
}

TEST(GrpcStatus, EveryReasonUsedInCodeIsInTheProto) {
  for (const char* name : {"BAD_ARGUMENT", "EPOCH_CONFLICT", "VERIFY_GATE", "STALE_FENCE", "PREDICTOR_MISSING", "UNKNOWN_ATTEMPT"}) {
    v1::Reason reason;
    EXPECT_TRUE(v1::Reason_Parse(name, &reason)) << name;
  }
}

TEST(GrpcStatus, TheLeadersAddressTravelsWithNotLeader) {
  absl::Status status = FromGrpc(ToGrpc(NotLeader("c1:7070")), "Locate");
  EXPECT_EQ(ReasonOf(status), "NOT_LEADER");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(GetDetail(status)->retryable);
  EXPECT_EQ(LeaderAddress(status), "c1:7070");
  status = FromGrpc(ToGrpc(NotLeader("")));
  EXPECT_EQ(ReasonOf(status), "NOT_LEADER");
  EXPECT_EQ(LeaderAddress(status), "");
}

}  // namespace
}  // namespace riskkv

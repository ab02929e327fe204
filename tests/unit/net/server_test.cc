#include "common/net/server.h"

#include "common/base/status.h"
#include "common/net/channel.h"
#include "grpc/health/v1/health.pb.h"
#include "gtest/gtest.h"
#include "riskkv/v1/calibration.grpc.pb.h"

namespace riskkv {
namespace {

class EmptyCalibration : public v1::Calibration::Service {
  grpc::Status ListPredictorSets(grpc::ServerContext*, const v1::ListPredictorSetsRequest*,
                                 v1::ListPredictorSetsReply*) override {
    return grpc::Status::OK;
  }
};

TEST(RpcServer, ServesOnAFreeLoopbackPort) {
  EmptyCalibration service;
  auto server = RpcServer::Start({.services = {&service}});
  ASSERT_TRUE(server.ok()) << server.status();
  auto stub = v1::Calibration::NewStub(CreateChannel((*server)->address(), ChannelKind::kControl));
  grpc::ClientContext context;
  SetTimeout(context, absl::Seconds(5));
  v1::ListPredictorSetsReply reply;
  EXPECT_TRUE(stub->ListPredictorSets(&context, {}, &reply).ok());
}

TEST(RpcServer, RefusesToListenBeyondLoopbackInPlainText) {
  auto server = RpcServer::Start({.listen = "0.0.0.0:0"});
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(server.status().message().find("0.0.0.0:0"), absl::string_view::npos);
}

TEST(RpcServer, NamesATakenAddress) {
  auto first = RpcServer::Start({});
  ASSERT_TRUE(first.ok());
  auto second = RpcServer::Start({.listen = (*first)->address()});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find((*first)->address()), absl::string_view::npos);
}

TEST(RpcServer, MalformedAddressIsNamed) {
  auto server = RpcServer::Start({.listen = "nonsense"});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*HostOf("[::1]:80"), "[::1]");
  EXPECT_TRUE(IsLoopback("127.0.0.2"));
  EXPECT_FALSE(IsLoopback("10.0.0.1"));
}

TEST(RpcServer, HealthIsInTheDescriptorPoolForReflection) {
  EXPECT_NE(google::protobuf::DescriptorPool::generated_pool()->FindServiceByName("grpc.health.v1.Health"), nullptr);
}

}  // namespace
}  // namespace riskkv

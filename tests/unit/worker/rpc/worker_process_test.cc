// A whole worker without a coordinator.
#include "services/worker/rpc/worker_process.h"

#include <thread>

#include "common/net/channel.h"
#include "common/net/status.h"
#include "tests/unit/worker/worker_fixture.h"

namespace riskkv::worker::testing {
namespace {

WorkerOptions Options() {
  WorkerOptions options;
  options.id = "A";
  options.backend = kernels::BackendChoice::kCpu;
  return options;
}

TEST(WorkerOptions, AreRefusedByName) {
  EXPECT_OK(CheckOptions(Options()));
  WorkerOptions o = Options();
  o.id = "";
  EXPECT_THAT(CheckOptions(o), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--id")));
  o = Options();
  o.listen = "7071";
  EXPECT_THAT(CheckOptions(o), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--listen '7071'")));
  o = Options();
  o.coordinator = "there";
  EXPECT_THAT(CheckOptions(o), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--coordinator 'there'")));
  o = Options();
  o.advertise = "me";
  EXPECT_THAT(CheckOptions(o), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--advertise 'me'")));
  o = Options();
  o.listen = "0.0.0.0:0";
  EXPECT_THAT(CheckOptions(o), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--insecure")));
  o.insecure = true;
  EXPECT_OK(CheckOptions(o));
}

TEST(WorkerProcess, ServesAndStopsWithAnOpenStream) {
  auto process = WorkerProcess::Start(Options(), FakeEngine::Create(Slow()).value());
  ASSERT_OK(process);
  auto stub = v1::Generation::NewStub(CreateChannel((*process)->address(), ChannelKind::kControl));
  grpc::ClientContext context;
  v1::GenerateRequest request;
  request.set_prompt("hello");
  request.mutable_stop()->set_max_tokens(5000);
  auto reader = stub->Generate(&context, request);
  v1::GenerateEvent event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.started().request_id().rfind((*process)->boot_id() + "-", 0), 0u);
  ASSERT_TRUE(reader->Read(&event));
  const absl::Time begin = absl::Now();
  std::thread stop([&] { (*process)->Shutdown(absl::Seconds(10)); });
  while (reader->Read(&event)) EXPECT_FALSE(event.has_finished());
  EXPECT_THAT(FromGrpc(reader->Finish()), HasReason("NOT_READY"));
  stop.join();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
}

TEST(WorkerProcess, ATakenPortIsNamed) {
  auto first = WorkerProcess::Start(Options(), FakeEngine::Create({}).value());
  ASSERT_OK(first);
  WorkerOptions o = Options();
  o.listen = (*first)->address();
  auto second = WorkerProcess::Start(o, FakeEngine::Create({}).value());
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kUnavailable, HasSubstr((*first)->address())));
}

}  // namespace
}  // namespace riskkv::worker::testing

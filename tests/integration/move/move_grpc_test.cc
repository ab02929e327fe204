// Whole workers and a coordinator in one process, over gRPC on loopback: what a client and a scheduler see of a move.
#include <filesystem>

#include "common/base/digest.h"
#include "common/codec/selection_codec.h"
#include "common/engine/fake/fake_engine.h"
#include "common/net/channel.h"
#include "common/net/status.h"
#include "common/predictor/selection_set.h"
#include "gtest/gtest.h"
#include "riskkv/v1/coordinator.grpc.pb.h"
#include "riskkv/v1/transfer.grpc.pb.h"
#include "services/client/request_stream.h"
#include "services/coordinator/rpc/coordinator.h"
#include "services/worker/rpc/worker_process.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::worker {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::IsOk;

constexpr absl::Duration kPatience = absl::Seconds(30);

bool Eventually(const std::function<bool()>& holds) {
  const absl::Time end = absl::Now() + kPatience;
  while (!holds()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

// One that nobody listens on just now.
int FreePort() {
  ServerOptions options;
  return RpcServer::Start(options).value()->port();
}

class MoveGrpcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    coordinator::CoordinatorOptions options;
    options.renew = absl::Milliseconds(100);
    options.lease = absl::Seconds(2);
    coordinator_ = coordinator::CoordinatorProcess::Start(options).value();
    folder_ = std::filesystem::path(::testing::TempDir()) / ("move_grpc_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    channel_ = CreateChannel(coordinator_->address(), ChannelKind::kControl);
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    coordinator_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string Folder(const std::string& id) const { return (folder_ / id).string(); }
  static std::unique_ptr<FakeEngine> MakeEngine(int64_t cells) {
    FakeOptions engine;
    engine.n_cells = cells;
    engine.n_vocab = 4096;
    engine.step_delay = absl::Milliseconds(1);
    return FakeEngine::Create(engine).value();
  }
  std::unique_ptr<WorkerProcess> StartWorker(const std::string& id, int64_t cells = 16384, WorkerOptions options = {}) {
    options.id = id;
    options.coordinator = coordinator_->address();
    options.predictors = Folder(id);
    options.backend = kernels::BackendChoice::kCpu;
    options.manager.detach_grace = absl::Minutes(5);
    auto worker = WorkerProcess::Start(options, MakeEngine(cells));
    EXPECT_OK(worker);
    return *std::move(worker);
  }
  // A set in a worker's folder before it starts. Returns its digest.
  std::string PlaceSet(const std::string& id, float scale = 1.0f) {
    const std::string bytes = SelectionSetBytes(MakeEngine(64)->facts(), {}, kernels::WeightType::kF32, scale).value();
    std::filesystem::create_directories(Folder(id));
    EXPECT_OK(WritePredictorSet(bytes, Folder(id) + "/"));
    return Sha256Hex(bytes);
  }
  // A set that can code as well.
  std::string PlaceCodedSet(const std::string& id) {
    const std::string bytes = WithSelectionCodec(**MakeSelectionSet(MakeEngine(64)->facts())).value();
    std::filesystem::create_directories(Folder(id));
    EXPECT_OK(WritePredictorSet(bytes, Folder(id) + "/"));
    return Sha256Hex(bytes);
  }
  void StartBoth() {
    a_ = StartWorker("a");
    b_ = StartWorker("b");
    ASSERT_TRUE(Eventually([&] { return a_->registered() && b_->registered(); }));
  }

  std::unique_ptr<client::RequestStream> Generate(int prompt, int max_tokens) {
    v1::GenerateRequest request;
    for (int i = 0; i < prompt; ++i) request.mutable_tokens()->add_ids('a' + i * 7 % 26);
    request.mutable_stop()->set_max_tokens(max_tokens);
    client::StreamOptions options;
    if (coordinator_) options.coordinator = coordinator_->address();
    return client::RequestStream::Generate(a_->address(), request, options, &clock_);
  }
  // Reads until `n` tokens are there, or to the end.
  std::vector<Token> Read(client::RequestStream& stream, std::size_t n) {
    std::vector<Token> out;
    while (out.size() < n) {
      auto item = stream.Next(kPatience);
      if (!item.ok()) {
        ADD_FAILURE() << item.status();
        break;
      }
      if (auto* t = std::get_if<client::TokenEvent>(&*item)) out.push_back(t->token);
      if (std::holds_alternative<client::FinishedEvent>(*item)) break;
    }
    return out;
  }
  v1::Outcome Migrate(const std::string& request_id, v1::Mode mode, const std::string& digest = "", const std::string& destination = "b",
                      uint64_t epoch = 1, v1::MigrateRequest::OnFailure on_failure = v1::MigrateRequest::FAIL) {
    v1::MigrateRequest request;
    request.set_migration_id("m" + std::to_string(++migrations_));
    request.set_request_id(request_id);
    request.set_expected_epoch(epoch);
    request.set_destination(destination);
    request.set_mode(mode);
    request.set_allow_lossy(mode == v1::MODE_RISK || mode == v1::MODE_CODED);
    request.set_predictor_set(digest);
    if (mode == v1::MODE_RISK) request.set_profile("risk-0.005");
    request.set_max_pause_ms(5000);
    request.set_on_failure(on_failure);
    grpc::ClientContext context;
    SetTimeout(context, absl::Seconds(60));
    auto stub = v1::Coordinator::NewStub(channel_);
    auto reader = stub->Migrate(&context, request);
    v1::MigrationEvent event;
    v1::Outcome outcome;
    while (reader->Read(&event)) {
      if (event.has_outcome()) outcome = event.outcome();
    }
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return outcome;
  }
  std::vector<Token> Unmoved(int prompt, int max_tokens) {
    auto stream = Generate(prompt, max_tokens);
    return Read(*stream, 1 << 20);
  }
  bool Idle(WorkerProcess& w) {
    const ManagerLoad load = w.manager().Load();
    return load.cells_used == 0 && load.slots_used == 0 && w.incoming().active() == 0 && w.outgoing().active() == 0;
  }

  RealClock clock_;
  std::filesystem::path folder_;
  std::unique_ptr<coordinator::CoordinatorProcess> coordinator_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<WorkerProcess> a_, b_;
  int migrations_ = 0;
};

class ModesTest : public MoveGrpcTest, public ::testing::WithParamInterface<v1::Mode> {};

TEST_P(ModesTest, ClientSeesOneUnbrokenStream) {
  const std::string digest = PlaceSet("a");
  PlaceSet("b");
  StartBoth();
  const std::vector<Token> want = Unmoved(500, 400);
  auto stream = Generate(500, 400);
  std::vector<Token> got = Read(*stream, 20);
  const v1::Outcome outcome = Migrate(stream->request_id(), GetParam(), GetParam() == v1::MODE_RISK ? digest : "");
  EXPECT_EQ(outcome.state(), v1::MIGRATION_STATE_SUCCEEDED) << outcome.ShortDebugString();
  EXPECT_EQ(outcome.owner(), "b");
  EXPECT_EQ(outcome.epoch(), 2u);
  EXPECT_EQ(outcome.mode(), GetParam());
  if (GetParam() == v1::MODE_RISK) {
    EXPECT_GT(outcome.stats().tokens_rebuilt(), 300);
    EXPECT_LT(outcome.stats().bytes_sent(), outcome.stats().bytes_full());
  }
  for (Token t : Read(*stream, 1 << 20)) got.push_back(t);
  EXPECT_EQ(got, want);
  EXPECT_TRUE(Eventually([&] { return Idle(*a_) && Idle(*b_); }));
}

INSTANTIATE_TEST_SUITE_P(Modes, ModesTest, ::testing::Values(v1::MODE_FULL, v1::MODE_RISK, v1::MODE_REPLAY),
                         [](const auto& info) { return v1::Mode_Name(info.param); });

TEST_F(MoveGrpcTest, CodedSendsAFractionAndTheClientSeesOneStream) {
  const std::string digest = PlaceCodedSet("a");
  PlaceCodedSet("b");
  StartBoth();
  const std::vector<Token> unmoved = Unmoved(500, 400);
  auto stream = Generate(500, 400);
  std::vector<Token> got = Read(*stream, 20);
  const v1::Outcome outcome = Migrate(stream->request_id(), v1::MODE_CODED, digest);
  ASSERT_EQ(outcome.state(), v1::MIGRATION_STATE_SUCCEEDED) << outcome.ShortDebugString();
  EXPECT_EQ(outcome.mode(), v1::MODE_CODED);
  EXPECT_EQ(outcome.profile(), "coded-0.005") << "the gated one that sends least";
  EXPECT_GT(outcome.stats().tokens_coded(), 400);
  EXPECT_LT(outcome.stats().bytes_sent(), outcome.stats().bytes_full() / 2);
  EXPECT_GT(outcome.stats().encode_ms(), 0);
  EXPECT_GT(outcome.stats().decode_ms(), 0);
  for (Token t : Read(*stream, 1 << 20)) got.push_back(t);
  ASSERT_EQ(got.size(), unmoved.size()) << "nothing lost, nothing twice";
  const auto before = static_cast<std::ptrdiff_t>(outcome.start_index());
  EXPECT_TRUE(std::equal(got.begin(), got.begin() + before, unmoved.begin())) << "what the source produced is not touched";
  EXPECT_NE(got, unmoved) << "the fake hashes every byte, so a coded cache must show";
  EXPECT_TRUE(Eventually([&] { return Idle(*a_) && Idle(*b_); }));
}

TEST_F(MoveGrpcTest, WithoutACodecTheWayFallsBackToFull) {
  PlaceSet("a");
  PlaceSet("b");
  StartBoth();
  const std::vector<Token> want = Unmoved(300, 300);
  auto stream = Generate(300, 300);
  std::vector<Token> got = Read(*stream, 20);
  const v1::Outcome outcome = Migrate(stream->request_id(), v1::MODE_CODED, "", "b", 1, v1::MigrateRequest::STAY);
  EXPECT_EQ(outcome.state(), v1::MIGRATION_STATE_SUCCEEDED) << outcome.ShortDebugString();
  EXPECT_EQ(outcome.mode(), v1::MODE_FULL);
  for (Token t : Read(*stream, 1 << 20)) got.push_back(t);
  EXPECT_EQ(got, want);
}

TEST_F(MoveGrpcTest, AnEgressLimitHoldsForMovesAndForTheLinkProbe) {
  constexpr double kLimit = 500e3;
  WorkerOptions slow;
  slow.egress_limit = kLimit;
  a_ = StartWorker("a", 16384, slow);
  b_ = StartWorker("b");
  ASSERT_TRUE(Eventually([&] { return a_->registered() && b_->registered(); }));
  auto stub = v1::Worker::NewStub(CreateChannel(a_->address(), ChannelKind::kControl));
  v1::MeasureLinkRequest measure;
  measure.set_address(b_->address());
  measure.set_bytes(200'000);
  v1::MeasureLinkReply link;
  grpc::ClientContext context;
  ASSERT_TRUE(stub->MeasureLink(&context, measure, &link).ok());
  EXPECT_LT(link.bytes_per_second(), kLimit * 1.1);
  EXPECT_GT(link.bytes_per_second(), kLimit * 0.3);
  auto stream = Generate(500, 2000);
  Read(*stream, 5);
  const v1::Outcome outcome = Migrate(stream->request_id(), v1::MODE_FULL);
  ASSERT_EQ(outcome.state(), v1::MIGRATION_STATE_SUCCEEDED) << outcome.ShortDebugString();
  EXPECT_GT(outcome.stats().transfer_seconds(), 0.95 * static_cast<double>(outcome.stats().bytes_sent()) / kLimit);
}

TEST_F(MoveGrpcTest, ThereAndBack) {
  const std::string digest = PlaceSet("a");
  PlaceSet("b");
  StartBoth();
  const std::vector<Token> want = Unmoved(400, 1500);
  auto stream = Generate(400, 1500);
  std::vector<Token> got = Read(*stream, 5);
  for (uint64_t i = 0; i < 4; ++i) {
    const v1::Outcome outcome = Migrate(stream->request_id(), v1::MODE_RISK, digest, i % 2 == 0 ? "b" : "a", i + 1);
    ASSERT_EQ(outcome.state(), v1::MIGRATION_STATE_SUCCEEDED) << outcome.ShortDebugString();
  }
  for (Token t : Read(*stream, 1 << 20)) got.push_back(t);
  EXPECT_EQ(got, want);
}

// A worker behind a published port: the coordinator and the other worker use one address, clients are told another.
TEST_F(MoveGrpcTest, ClientsAreToldTheAddressForClients) {
  a_ = StartWorker("a");
  const int port = FreePort();
  WorkerOptions options;
  options.listen = "127.0.0.1:" + std::to_string(port);
  options.client_address = "localhost:" + std::to_string(port);
  b_ = StartWorker("b", 16384, options);
  ASSERT_TRUE(Eventually([&] { return a_->registered() && b_->registered(); }));
  EXPECT_EQ(b_->advertised(), options.listen);
  const std::vector<Token> want = Unmoved(300, 900);
  auto stream = Generate(300, 900);
  std::vector<Token> got = Read(*stream, 5);
  const v1::Outcome outcome = Migrate(stream->request_id(), v1::MODE_FULL);
  EXPECT_EQ(outcome.state(), v1::MIGRATION_STATE_SUCCEEDED) << outcome.ShortDebugString();
  EXPECT_EQ(outcome.owner_address(), options.client_address);
  std::vector<std::string> told;
  for (;;) {
    auto item = stream->Next(kPatience);
    ASSERT_OK(item.status());
    if (auto* t = std::get_if<client::TokenEvent>(&*item)) got.push_back(t->token);
    if (auto* moving = std::get_if<client::MovingEvent>(&*item)) told.push_back(moving->address);
    if (auto* moved = std::get_if<client::MovedEvent>(&*item)) told.push_back(moved->address);
    if (std::holds_alternative<client::FinishedEvent>(*item)) break;
  }
  EXPECT_EQ(got, want);
  EXPECT_FALSE(told.empty());
  for (const std::string& address : told) EXPECT_EQ(address, options.client_address);
}

TEST_F(MoveGrpcTest, MissingSetIsFetchedFromAPeerAndVerified) {
  const std::string digest = PlaceSet("a");
  StartBoth();
  EXPECT_FALSE(b_->predictors().Has(digest));
  auto stream = Generate(500, 600);
  Read(*stream, 5);
  const v1::Outcome outcome = Migrate(stream->request_id(), v1::MODE_RISK, digest);
  EXPECT_EQ(outcome.state(), v1::MIGRATION_STATE_SUCCEEDED) << outcome.ShortDebugString();
  EXPECT_TRUE(b_->predictors().Has(digest));
  EXPECT_TRUE(std::filesystem::exists(Folder("b") + "/" + digest + ".riskkv"));
}

TEST_F(MoveGrpcTest, WrongPredictorFallsBackToFull) {
  const std::string wrong = PlaceSet("a", 1.5f);
  PlaceSet("b", 1.5f);
  StartBoth();
  const std::vector<Token> want = Unmoved(500, 600);
  auto stream = Generate(500, 600);
  std::vector<Token> got = Read(*stream, 5);
  const v1::Outcome failed = Migrate(stream->request_id(), v1::MODE_RISK, wrong);
  EXPECT_EQ(failed.error().reason(), v1::VERIFY_GATE) << failed.ShortDebugString();
  EXPECT_EQ(failed.owner(), "a");
  const v1::Outcome full = Migrate(stream->request_id(), v1::MODE_RISK, wrong, "b", 1, v1::MigrateRequest::STAY);
  EXPECT_EQ(full.state(), v1::MIGRATION_STATE_SUCCEEDED) << full.ShortDebugString();
  EXPECT_EQ(full.mode(), v1::MODE_FULL);
  for (Token t : Read(*stream, 1 << 20)) got.push_back(t);
  EXPECT_EQ(got, want);
  EXPECT_TRUE(Eventually([&] { return Idle(*a_) && Idle(*b_); }));
}

TEST_F(MoveGrpcTest, DestinationWithoutRoomOrGone) {
  a_ = StartWorker("a");
  b_ = StartWorker("b", 200);
  ASSERT_TRUE(Eventually([&] { return a_->registered() && b_->registered(); }));
  const std::vector<Token> want = Unmoved(500, 900);
  auto stream = Generate(500, 900);
  std::vector<Token> got = Read(*stream, 5);
  const v1::Outcome full = Migrate(stream->request_id(), v1::MODE_FULL);
  EXPECT_EQ(full.error().reason(), v1::NO_BLOCKS) << full.ShortDebugString();
  b_->Shutdown(absl::Seconds(1));
  b_.reset();
  const v1::Outcome gone = Migrate(stream->request_id(), v1::MODE_FULL);
  EXPECT_NE(gone.state(), v1::MIGRATION_STATE_SUCCEEDED);
  EXPECT_NE(gone.error().reason(), v1::REASON_UNSPECIFIED) << gone.ShortDebugString();
  for (Token t : Read(*stream, 1 << 20)) got.push_back(t);
  EXPECT_EQ(got, want);
}

// Nobody holds the request but its client, with the prompt and what it has received.
TEST_F(MoveGrpcTest, ALostOwnersRequestIsRecoveredByItsClient) {
  StartBoth();
  const std::vector<Token> want = Unmoved(300, 400);
  auto stream = Generate(300, 400);
  std::vector<Token> got = Read(*stream, 20);
  a_.reset();
  for (Token t : Read(*stream, 1 << 20)) got.push_back(t);
  EXPECT_EQ(got, want);
  EXPECT_EQ(stream->recoveries(), 1);
  EXPECT_EQ(stream->merger().epoch(), 2u);
  EXPECT_EQ(stream->merger().owner().worker_id, "b");
  EXPECT_EQ(stream->log().Lost(400), 0);
  EXPECT_EQ(stream->log().Duplicated(), 0);
  EXPECT_TRUE(Eventually([&] { return Idle(*b_); }));
}

TEST_F(MoveGrpcTest, WorkersFindTheirCoordinatorAgain) {
  StartBoth();
  const int port = coordinator_->port();
  coordinator_->Shutdown(absl::Seconds(1));
  coordinator_.reset();
  ASSERT_TRUE(Eventually([&] { return !a_->registered(); }));
  auto stream = Generate(10, 50);
  EXPECT_EQ(Read(*stream, 50).size(), 50u) << "generation goes on without a coordinator";
  coordinator::CoordinatorOptions options;
  options.listen = "127.0.0.1:" + std::to_string(port);
  coordinator_ = coordinator::CoordinatorProcess::Start(options).value();
  EXPECT_TRUE(Eventually([&] { return a_->registered() && b_->registered(); }));
}

TEST_F(MoveGrpcTest, LinkIsMeasuredAndWorkerDescribesItself) {
  const std::string digest = PlaceSet("a");
  StartBoth();
  auto stub = v1::Worker::NewStub(CreateChannel(a_->address(), ChannelKind::kControl));
  v1::MeasureLinkRequest measure;
  measure.set_address(b_->address());
  v1::MeasureLinkReply link;
  grpc::ClientContext c1;
  const grpc::Status measured = stub->MeasureLink(&c1, measure, &link);
  ASSERT_TRUE(measured.ok()) << measured.error_message();
  EXPECT_GT(link.bytes_per_second(), 1e6);
  EXPECT_GT(link.rtt_seconds(), 0);
  v1::WorkerInfo info;
  grpc::ClientContext c2;
  ASSERT_TRUE(stub->Describe(&c2, v1::DescribeRequest(), &info).ok());
  EXPECT_EQ(info.worker_id(), "a");
  ASSERT_EQ(info.sets_size(), 1);
  EXPECT_EQ(info.sets(0).digest(), digest);
  EXPECT_GT(info.costs().rebuild_s(), 0);
  EXPECT_TRUE(info.serving());
}

TEST_F(MoveGrpcTest, CorruptSetIsNotKept) {
  const std::string digest = PlaceSet("a");
  StartBoth();
  auto fetch = [&](const std::string& wanted, const std::string& peer) {
    v1::FetchSetRequest request;
    request.set_digest(wanted);
    request.add_peers(peer);
    v1::FetchSetReply reply;
    grpc::ClientContext context;
    return FromGrpc(v1::Worker::NewStub(CreateChannel(b_->address(), ChannelKind::kControl))->FetchSet(&context, request, &reply));
  };
  EXPECT_THAT(fetch(std::string(64, '1'), a_->address()), HasReason("PREDICTOR_MISSING"));
  EXPECT_THAT(fetch(digest, "127.0.0.1:1"), HasReason("PEER_UNREACHABLE"));
  // A file that changed under the peer that serves it.
  EXPECT_THAT(b_->predictors().Add(digest, "not a set"), HasReason("DIGEST"));
  EXPECT_FALSE(b_->predictors().Has(digest));
  EXPECT_FALSE(std::filesystem::exists(Folder("b") + "/" + digest + ".riskkv"));
  EXPECT_OK(fetch(digest, a_->address()));
}

}  // namespace
}  // namespace riskkv::worker

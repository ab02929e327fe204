// The coordinator over real gRPC: a scripted worker service stands for source and destination.
#include <stdlib.h>

#include <filesystem>
#include <thread>

#include "common/base/status.h"
#include "common/net/channel.h"
#include "common/net/convert.h"
#include "common/net/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "riskkv/v1/generation.grpc.pb.h"
#include "riskkv/v1/worker.grpc.pb.h"
#include "services/coordinator/rpc/coordinator.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::coordinator {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kRequest[] = "bootA-01";
constexpr char kOutside[] = "outside.example:7072";  // B's address for clients

// Both ends of a move in one process: StartMove plays the source and asks the coordinator as the destination would.
class ScriptedWorker : public v1::Worker::Service, public v1::Generation::Service {
 public:
  std::string coordinator;
  std::atomic<uint64_t> epoch{1};
  std::atomic<bool> hang{false};   // after FINAL
  std::atomic<int> decisions{0};
  std::atomic<bool> refuse{false};  // Reserve, when the parameters have a grammar

  grpc::Status GetRequest(grpc::ServerContext*, const v1::GetRequestRequest* request, v1::RequestInfo* reply) override {
    if (request->request_id() != kRequest) {
      return ToGrpc(MakeError(absl::StatusCode::kNotFound, "UNKNOWN_REQUEST", "request " + request->request_id()));
    }
    reply->set_request_id(kRequest);
    reply->set_epoch(epoch);
    reply->set_state(v1::REQUEST_STATE_DECODING);
    reply->set_prompt_tokens(500);
    reply->set_output_tokens(10);
    reply->set_n_kv(509);
    reply->set_max_tokens(100);
    reply->mutable_sampling()->set_grammar("root ::= \"yes\"");
    reply->mutable_stop()->set_max_tokens(100);
    reply->mutable_stop()->add_stop("END");
    return grpc::Status::OK;
  }
  grpc::Status Reserve(grpc::ServerContext*, const v1::ReserveRequest* request, v1::ReserveReply* reply) override {
    if (request->stop().stop_size() != 1 || request->stop().max_tokens() != 100) {
      return ToGrpc(MakeError(absl::StatusCode::kInvalidArgument, "BAD_ARGUMENT", "stop: " + request->stop().ShortDebugString()));
    }
    if (refuse && !request->sampling().grammar().empty()) {
      return ToGrpc(MakeError(absl::StatusCode::kFailedPrecondition, "STATE_NOT_TRANSFERABLE", "sampling.grammar is not known here"));
    }
    reply->set_boot_id(request->fence().destination_boot_id());
    return grpc::Status::OK;
  }
  grpc::Status Decide(grpc::ServerContext*, const v1::DecideRequest*, v1::DecideReply* reply) override {
    ++decisions;
    reply->set_known(true);
    return grpc::Status::OK;
  }
  grpc::Status MeasureLink(grpc::ServerContext*, const v1::MeasureLinkRequest*, v1::MeasureLinkReply* reply) override {
    reply->set_bytes_per_second(2e8);
    reply->set_rtt_seconds(0.001);
    return grpc::Status::OK;
  }
  grpc::Status StartMove(grpc::ServerContext* context, const v1::StartMoveRequest* request,
                         grpc::ServerWriter<v1::MoveEvent>* writer) override {
    v1::MoveEvent event;
    event.set_state(v1::MIGRATION_STATE_PRECOPY);
    event.mutable_round()->set_round(1);
    writer->Write(event);
    event.Clear();
    event.set_state(v1::MIGRATION_STATE_FINAL);
    writer->Write(event);
    while (hang && !context->IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    absl::SleepFor(absl::Milliseconds(50));
    auto registry = v1::Registry::NewStub(CreateChannel(coordinator, ChannelKind::kControl));
    v1::PreparedRequest prepared;
    *prepared.mutable_fence() = request->fence();
    prepared.set_start_index(12);
    v1::DecisionReply decision;
    {
      grpc::ClientContext call;
      SetTimeout(call, absl::Seconds(5));
      EXPECT_OK(FromGrpc(registry->Prepared(&call, prepared, &decision)));
    }
    EXPECT_EQ(decision.decision(), v1::DECISION_COMMITTED);
    EXPECT_EQ(decision.owner(), "B");
    EXPECT_EQ(decision.owner_address(), kOutside) << "where clients reach it";
    EXPECT_EQ(request->destination_client_address(), kOutside);
    EXPECT_NE(request->destination_address(), kOutside);
    event.Clear();
    event.set_state(v1::MIGRATION_STATE_PREPARED);
    event.mutable_prepared()->set_bytes_sent(777);
    writer->Write(event);
    epoch = decision.epoch();
    grpc::ClientContext call;
    SetTimeout(call, absl::Seconds(5));
    v1::ResumedRequest resumed;
    *resumed.mutable_fence() = request->fence();
    resumed.set_new_epoch(decision.epoch());
    EXPECT_OK(FromGrpc(registry->Resumed(&call, resumed, &decision)));
    EXPECT_EQ(decision.decision(), v1::DECISION_RESUMED);
    return grpc::Status::OK;
  }
};

class CoordinatorRpcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "riskkv-coordinator-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    StartCoordinator();
    ServerOptions options;
    options.services = {static_cast<v1::Worker::Service*>(&worker_), static_cast<v1::Generation::Service*>(&worker_)};
    auto server = RpcServer::Start(options);
    ASSERT_OK(server);
    worker_server_ = *std::move(server);
    for (const char* id : {"A", "B"}) Register(id);
  }
  void TearDown() override {
    coordinator_.reset();
    worker_server_.reset();
    std::filesystem::remove_all(folder_);
  }
  CoordinatorOptions Options() {
    CoordinatorOptions options;
    options.store = "sqlite:" + folder_ + "/store.db";
    options.lease = absl::Milliseconds(3000);
    options.renew = absl::Milliseconds(500);
    return options;
  }
  void StartCoordinator() {
    coordinator_.reset();
    auto started = CoordinatorProcess::Start(Options());
    ASSERT_OK(started);
    coordinator_ = *std::move(started);
    worker_.coordinator = coordinator_->address();
    channel_ = CreateChannel(coordinator_->address(), ChannelKind::kControl);
    stub_ = v1::Coordinator::NewStub(channel_);
    registry_ = v1::Registry::NewStub(channel_);
  }
  v1::WorkerInfo Info(const std::string& id) {
    v1::WorkerInfo info;
    info.set_worker_id(id);
    info.set_boot_id("boot" + id);
    info.set_address(worker_server_->address());
    info.set_serving(true);
    Fingerprint fingerprint;
    fingerprint.architecture = "llama";
    fingerprint.layout = {.n_layer = 30, .n_head_kv = 3, .head_dim = 64};
    *info.mutable_fingerprint() = ToProto(fingerprint);
    if (id == "B") info.set_client_address(kOutside);
    if (id == "A") {
      v1::PredictorSetInfo* set = info.add_sets();
      set->set_digest("set1");
      *set->mutable_fingerprint() = info.fingerprint();
      set->add_groups()->set_predictor_bytes(1000000);
      v1::ProfileInfo* profile = set->add_profiles();
      profile->set_name("risk-0.005");
      profile->add_groups(0);
      profile->add_omitted_layers(2);
      profile->add_omitted_layers(3);
      profile->set_gated(true);
    }
    return info;
  }
  void Register(const std::string& id) {
    grpc::ClientContext context;
    v1::RegisterRequest request;
    *request.mutable_worker() = Info(id);
    v1::RegisterReply reply;
    ASSERT_OK(FromGrpc(registry_->Register(&context, request, &reply)));
    EXPECT_EQ(reply.lease_ms(), 3000);
    EXPECT_EQ(reply.renew_ms(), 500);
    EXPECT_GE(reply.leader_term(), 1u);
  }
  static v1::MigrateRequest Order(const std::string& id = "m1") {
    v1::MigrateRequest request;
    request.set_migration_id(id);
    request.set_request_id(kRequest);
    request.set_expected_epoch(1);
    request.set_destination("B");
    request.set_mode(v1::MODE_FULL);
    return request;
  }
  absl::Status Migrate(const v1::MigrateRequest& request, std::vector<v1::MigrationEvent>* events = nullptr) {
    grpc::ClientContext context;
    SetTimeout(context, absl::Seconds(20));
    auto reader = stub_->Migrate(&context, request);
    v1::MigrationEvent event;
    while (reader->Read(&event)) {
      if (events != nullptr) events->push_back(event);
    }
    return FromGrpc(reader->Finish());
  }

  std::string folder_;
  ScriptedWorker worker_;
  std::unique_ptr<RpcServer> worker_server_;
  std::unique_ptr<CoordinatorProcess> coordinator_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Coordinator::Stub> stub_;
  std::unique_ptr<v1::Registry::Stub> registry_;
};

TEST_F(CoordinatorRpcTest, MigrateStreamsUntilTheTerminalEvent) {
  std::vector<v1::MigrationEvent> events;
  ASSERT_OK(Migrate(Order(), &events));
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.front().state(), v1::MIGRATION_STATE_ACCEPTED);
  EXPECT_TRUE(events[1].has_plan());
  EXPECT_THAT(events.front().time(), ::testing::MatchesRegex("[0-9]+-[0-9]+-[0-9]+T.*"));
  const v1::Outcome& outcome = events.back().outcome();
  EXPECT_EQ(outcome.state(), v1::MIGRATION_STATE_SUCCEEDED);
  EXPECT_EQ(outcome.owner(), "B");
  EXPECT_EQ(outcome.epoch(), 2u);
  EXPECT_EQ(outcome.start_index(), 12);
  EXPECT_EQ(outcome.stats().bytes_sent(), 777);
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].seq(), i + 1);
  // The same id: the same events, no second move. Locate knows the new owner.
  std::vector<v1::MigrationEvent> again;
  ASSERT_OK(Migrate(Order(), &again));
  EXPECT_EQ(again.size(), events.size());
  grpc::ClientContext context;
  v1::LocateRequest locate;
  locate.set_request_id(kRequest);
  v1::LocateReply where;
  ASSERT_OK(FromGrpc(stub_->Locate(&context, locate, &where)));
  EXPECT_EQ(where.owner(), "B");
  EXPECT_EQ(where.epoch(), 2u);
  EXPECT_EQ(where.address(), kOutside);
  EXPECT_EQ(outcome.owner_address(), kOutside);
}

TEST_F(CoordinatorRpcTest, WhatTheDestinationCannotGoOnWithIsRefusedAtReserve) {
  worker_.refuse = true;
  v1::MigrateRequest order = Order();
  order.set_on_failure(v1::MigrateRequest::FAIL);
  std::vector<v1::MigrationEvent> events;
  ASSERT_OK(Migrate(order, &events));
  for (const v1::MigrationEvent& event : events) EXPECT_NE(event.state(), v1::MIGRATION_STATE_RESERVED);
  const v1::Outcome& outcome = events.back().outcome();
  EXPECT_EQ(outcome.error().reason(), v1::STATE_NOT_TRANSFERABLE) << outcome.ShortDebugString();
  EXPECT_THAT(outcome.error().message(), HasSubstr("sampling.grammar"));
  EXPECT_EQ(outcome.owner(), "A");
}

TEST_F(CoordinatorRpcTest, ErrorsCarryTypedDetails) {
  v1::MigrateRequest order = Order();
  order.set_destination("Z");
  absl::Status status = Migrate(order);
  EXPECT_THAT(status, HasReason("UNKNOWN_WORKER"));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("'Z'")));
  order = Order();
  order.set_request_id("bootA-99");
  EXPECT_THAT(Migrate(order), HasReason("UNKNOWN_REQUEST"));
  order = Order();
  order.set_expected_epoch(9);
  EXPECT_THAT(Migrate(order), HasReason("EPOCH_CONFLICT"));
  order = Order();
  order.set_mode(v1::MODE_RISK);
  EXPECT_THAT(Migrate(order), HasReason("LOSSY_NOT_ALLOWED"));
}

TEST_F(CoordinatorRpcTest, StartWatchCancel) {
  worker_.hang = true;
  grpc::ClientContext start_context, cancel_context, watch_context;
  v1::Migration migration;
  ASSERT_OK(FromGrpc(stub_->StartMigration(&start_context, Order(), &migration)));
  v1::WatchMigrationRequest watch;
  watch.set_migration_id("m1");
  watch.set_from_seq(2);
  SetTimeout(watch_context, absl::Seconds(20));
  auto reader = stub_->WatchMigration(&watch_context, watch);
  v1::MigrationEvent event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.seq(), 2u);
  while (event.state() != v1::MIGRATION_STATE_FINAL) ASSERT_TRUE(reader->Read(&event));
  v1::CancelMigrationRequest cancel;
  cancel.set_migration_id("m1");
  absl::Time before = absl::Now();
  ASSERT_OK(FromGrpc(stub_->CancelMigration(&cancel_context, cancel, &migration)));
  while (reader->Read(&event)) {
  }
  EXPECT_OK(FromGrpc(reader->Finish()));
  EXPECT_LT(absl::Now() - before, absl::Seconds(2));
  EXPECT_EQ(event.state(), v1::MIGRATION_STATE_ABORTED);
  EXPECT_EQ(event.outcome().error().reason(), v1::CANCELLED_BY_CALLER);
  EXPECT_EQ(event.outcome().owner(), "A");
}

TEST_F(CoordinatorRpcTest, LeasesRenewOnTheirStream) {
  grpc::ClientContext context;
  SetTimeout(context, absl::Seconds(10));
  auto stream = registry_->RenewLease(&context);
  v1::LeaseRenewal renewal;
  renewal.set_worker_id("A");
  renewal.set_boot_id("bootA");
  renewal.set_serving(true);
  renewal.add_set_digests("set1");
  v1::LeaseReply reply;
  ASSERT_TRUE(stream->Write(renewal));
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.lease_ms(), 3000);
  renewal.set_boot_id("another");
  ASSERT_TRUE(stream->Write(renewal));
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_THAT(FromGrpc(stream->Finish()), HasReason("UNKNOWN_WORKER"));
}

TEST_F(CoordinatorRpcTest, ListsWorkersLinksAndSets) {
  grpc::ClientContext report_context, workers_context, sets_context;
  v1::TransferReport report;
  report.set_source("A");
  report.set_destination("B");
  report.set_bytes(10000000);
  report.set_seconds(0.1);
  v1::TransferReportReply nothing;
  ASSERT_OK(FromGrpc(registry_->ReportTransfer(&report_context, report, &nothing)));
  v1::ListWorkersReply workers;
  ASSERT_OK(FromGrpc(stub_->ListWorkers(&workers_context, v1::ListWorkersRequest(), &workers)));
  EXPECT_EQ(workers.workers_size(), 2);
  ASSERT_EQ(workers.links_size(), 1);
  EXPECT_NEAR(workers.links(0).bytes_per_second(), 1e8, 1);
  v1::ListPredictorSetsReply sets;
  ASSERT_OK(FromGrpc(v1::Calibration::NewStub(channel_)->ListPredictorSets(&sets_context, v1::ListPredictorSetsRequest(), &sets)));
  ASSERT_EQ(sets.sets_size(), 1);
  EXPECT_THAT(sets.sets(0).workers(), ElementsAre("A"));
  EXPECT_EQ(sets.sets(0).break_even_moves(), 1);  // 1e6 / (1024 * 2 * 768)
}

TEST_F(CoordinatorRpcTest, ARestartOnTheFileKnowsTheOwnerAndASecondOneIsRefused) {
  ASSERT_OK(Migrate(Order()));
  auto second = CoordinatorProcess::Start(Options());
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("store.db")));
  StartCoordinator();
  grpc::ClientContext context, get_context;
  v1::LocateRequest locate;
  locate.set_request_id(kRequest);
  v1::LocateReply where;
  ASSERT_OK(FromGrpc(stub_->Locate(&context, locate, &where)));
  EXPECT_EQ(where.owner(), "B");
  v1::GetMigrationRequest get;
  get.set_migration_id("m1");
  v1::Migration migration;
  ASSERT_OK(FromGrpc(stub_->GetMigration(&get_context, get, &migration)));
  EXPECT_EQ(migration.state(), v1::MIGRATION_STATE_SUCCEEDED);
}

TEST_F(CoordinatorRpcTest, ShutsDownWhileStreamsAreOpen) {
  worker_.hang = true;
  grpc::ClientContext start_context, watch_context;
  v1::Migration migration;
  ASSERT_OK(FromGrpc(stub_->StartMigration(&start_context, Order(), &migration)));
  v1::WatchMigrationRequest watch;
  watch.set_migration_id("m1");
  auto reader = stub_->WatchMigration(&watch_context, watch);
  absl::Time before = absl::Now();
  coordinator_->Shutdown(absl::Seconds(2));
  EXPECT_LT(absl::Now() - before, absl::Seconds(5));
  worker_.hang = false;
  v1::MigrationEvent event;
  while (reader->Read(&event)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
}

}  // namespace
}  // namespace riskkv::coordinator

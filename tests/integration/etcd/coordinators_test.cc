// Several coordinators as processes on one etcd: the leader killed, paused, cut off from etcd, in the middle of a move.
#include <filesystem>
#include <fstream>

#include "common/base/status.h"
#include "common/net/channel.h"
#include "common/net/status.h"
#include "gtest/gtest.h"
#include "tests/integration/etcd/moving_workers.h"
#include "tests/integration/etcd/processes.h"
#include "tests/testing/paths.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::EtcdServer;
using ::riskkv::testing::kMovingRequest;
using ::riskkv::testing::MovingWorkers;
using ::riskkv::testing::Process;
using ::riskkv::testing::WaitUntil;

constexpr absl::Duration kPatience = absl::Seconds(60);  // for a busy machine; nothing here takes a tenth of it otherwise

struct OneCoordinator {
  std::string address;
  std::unique_ptr<Process> process;
};

class CoordinatorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    etcd_ = EtcdServer::Start();
    if (!etcd_) GTEST_SKIP() << "no etcd here: install the package etcd-server";
    folder_ = testing::NewFolder("coordinators");
    std::vector<std::string> addresses;
    for (int i = 0; i < 2; ++i) {
      coordinators_.push_back(StartCoordinator(i));
      addresses.push_back(coordinators_.back().address);
    }
    workers_ = std::make_unique<MovingWorkers>(addresses);
  }
  void TearDown() override {
    workers_.reset();
    coordinators_.clear();
    etcd_.reset();
    if (!folder_.empty() && !HasFailure()) std::filesystem::remove_all(folder_);
  }
  OneCoordinator StartCoordinator(int number) {
    OneCoordinator c;
    const std::string base = folder_ + "/" + std::to_string(number);
    c.address = "127.0.0.1:" + std::to_string(testing::FreePort());
    c.process = std::make_unique<Process>(
        std::vector<std::string>{testing::BinaryPath("riskkv-coordinator"), "--listen", c.address, "--store", etcd_->spec(), "--leader-ttl-s",
                                 "2", "--lease-ms", "4000", "--renew-ms", "500", "--port-file", base + ".port"},
        base + ".log");
    EXPECT_TRUE(WaitUntil(kPatience, [&] { return std::filesystem::exists(base + ".port"); })) << base << ".log";
    return c;
  }
  template <typename Call>
  static absl::Status At(const std::string& address, Call call) {
    grpc::ClientContext context;
    SetTimeout(context, absl::Seconds(5));
    auto stub = v1::Coordinator::NewStub(CreateChannel(address, ChannelKind::kBulk));
    return FromGrpc(call(*stub, &context));
  }
  static absl::Status Locate(const std::string& address, v1::LocateReply* reply) {
    v1::LocateRequest request;
    request.set_request_id(kMovingRequest);
    return At(address, [&](v1::Coordinator::Stub& stub, grpc::ClientContext* context) { return stub.Locate(context, request, reply); });
  }
  bool Leads(std::size_t i) {
    v1::ListWorkersReply reply;
    return At(coordinators_[i].address, [&](v1::Coordinator::Stub& stub, grpc::ClientContext* context) {
             return stub.ListWorkers(context, v1::ListWorkersRequest(), &reply);
           }).ok();
  }
  // The number of the coordinator that leads; it must come about.
  std::size_t Leader() {
    std::size_t leader = 2;
    EXPECT_TRUE(WaitUntil(kPatience, [&] {
      for (std::size_t i = 0; i < 2; ++i) {
        if (coordinators_[i].process && Leads(i)) leader = i;
      }
      return leader < 2;
    }));
    return leader;
  }
  // A move that has come to FINAL, started at the leader.
  void MoveToFinal(std::size_t leader) {
    v1::MigrateRequest order;
    order.set_migration_id("m1");
    order.set_request_id(kMovingRequest);
    order.set_expected_epoch(1);
    order.set_destination("B");
    order.set_mode(v1::MODE_FULL);
    order.set_deadline_ms(240000);
    v1::Migration migration;
    absl::Status started;
    ASSERT_TRUE(WaitUntil(kPatience, [&] {  // until both workers have registered
      started = At(coordinators_[leader].address, [&](v1::Coordinator::Stub& stub, grpc::ClientContext* context) {
        return stub.StartMigration(context, order, &migration);
      });
      return started.ok();
    })) << started;
    ASSERT_TRUE(WaitUntil(kPatience, [&] { return workers_->fence().has_value(); }));
  }
  v1::Migration Migration(std::size_t at) {
    v1::GetMigrationRequest request;
    request.set_migration_id("m1");
    v1::Migration migration;
    (void)At(coordinators_[at].address, [&](v1::Coordinator::Stub& stub, grpc::ClientContext* context) {
      return stub.GetMigration(context, request, &migration);
    });
    return migration;
  }
  // Commits and resumes at whoever leads; the job ends well, with one attempt and one change of owner.
  void Finish() {
    v1::DecisionReply committed = workers_->Prepared(kPatience);
    ASSERT_EQ(committed.decision(), v1::DECISION_COMMITTED);
    EXPECT_EQ(committed.epoch(), 2u);
    EXPECT_EQ(workers_->Resumed(2, kPatience).decision(), v1::DECISION_RESUMED);
    v1::Migration migration;
    ASSERT_TRUE(WaitUntil(kPatience, [&] {
      migration = Migration(Leader());
      return migration.has_outcome();
    }));
    EXPECT_EQ(migration.state(), v1::MIGRATION_STATE_SUCCEEDED);
    EXPECT_EQ(migration.attempts(), 1u);
    EXPECT_EQ(migration.outcome().owner(), "B");
    v1::LocateReply where;
    EXPECT_OK(Locate(coordinators_[Leader()].address, &where));
    EXPECT_EQ(where.epoch(), 2u);
  }

  std::unique_ptr<EtcdServer> etcd_;
  std::string folder_;
  std::vector<OneCoordinator> coordinators_;
  std::unique_ptr<MovingWorkers> workers_;
};

TEST_F(CoordinatorsTest, AFollowerNamesTheLeaderAndTakesOverWhenItStops) {
  const std::size_t leader = Leader(), other = 1 - leader;
  v1::LocateReply reply;
  absl::Status refused;
  ASSERT_TRUE(WaitUntil(kPatience, [&] {
    refused = Locate(coordinators_[other].address, &reply);
    return !LeaderAddress(refused).empty();
  })) << refused;
  EXPECT_THAT(refused, testing::HasReason("NOT_LEADER"));
  EXPECT_EQ(LeaderAddress(refused), coordinators_[leader].address);
  coordinators_[leader].process->Terminate();
  coordinators_[leader].process.reset();
  EXPECT_EQ(Leader(), other);
}

TEST_F(CoordinatorsTest, TheLeaderIsKilledInAMoveAndTheFollowerGoesOnWithIt) {
  const std::size_t leader = Leader(), other = 1 - leader;
  MoveToFinal(leader);
  coordinators_[leader].process.reset();  // kill -9
  ASSERT_EQ(Leader(), other);
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return workers_->starts() >= 2; })) << "the source was not joined again";
  Finish();
}

TEST_F(CoordinatorsTest, APausedLeaderThatComesBackDecidesNothing) {
  const std::size_t leader = Leader(), other = 1 - leader;
  MoveToFinal(leader);
  const v1::Fence fence = *workers_->fence();
  coordinators_[leader].process->Pause();
  ASSERT_TRUE(WaitUntil(kPatience, [&] { return Leads(other); }));
  coordinators_[leader].process->Continue();
  absl::StatusOr<v1::DecisionReply> late = MovingWorkers::PreparedAt(coordinators_[leader].address, fence);
  EXPECT_THAT(late, testing::HasReason("NOT_LEADER"));
  v1::LocateReply where;
  EXPECT_OK(Locate(coordinators_[other].address, &where));
  EXPECT_EQ(where.epoch(), 1u);
  Finish();
  absl::Status refused;
  EXPECT_TRUE(WaitUntil(kPatience, [&] {
    refused = Locate(coordinators_[leader].address, &where);
    return LeaderAddress(refused) == coordinators_[other].address;
  })) << refused;
}

TEST_F(CoordinatorsTest, WithoutEtcdNobodyLeadsAndTheJobGoesOnAfterwards) {
  const std::size_t before = Leader();
  MoveToFinal(before);
  const v1::Fence fence = *workers_->fence();
  etcd_->Kill();
  for (std::size_t i = 0; i < 2; ++i) {
    const absl::Time asked = absl::Now();
    EXPECT_FALSE(MovingWorkers::PreparedAt(coordinators_[i].address, fence).ok());
    EXPECT_LT(absl::Now() - asked, absl::Seconds(5));
  }
  EXPECT_TRUE(WaitUntil(kPatience, [&] { return !Leads(0) && !Leads(1); }));
  etcd_->Restart();
  Finish();
}

}  // namespace
}  // namespace riskkv

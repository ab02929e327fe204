// The store over a real etcd: the conformance suite, and etcd killed and paused.
#include "common/net/etcd_client.h"
#include "common/store/etcd/etcd_store.h"
#include "tests/integration/etcd/processes.h"
#include "tests/unit/store/store_conformance.h"

namespace riskkv {
namespace {

using ::riskkv::testing::EtcdServer;
using ::riskkv::testing::WaitUntil;
using ::testing::HasSubstr;

// One server for all tests of this program, each with its own prefix.
EtcdServer* SharedEtcd() {
  static std::unique_ptr<EtcdServer> server = EtcdServer::Start();
  return server.get();
}

const RealClock kClock{};
constexpr absl::Duration kCallTimeout = absl::Seconds(2);

std::unique_ptr<Store> Lead(const EtcdServer& server, const std::string& prefix, const Clock* clock = &kClock, bool renew = true,
                            absl::Duration ttl = absl::Seconds(20)) {
  EtcdOptions options{.endpoints = {server.endpoint()}, .prefix = prefix, .timeout = kCallTimeout};
  auto client = std::make_shared<EtcdClient>(options);
  std::unique_ptr<Store> store;
  // Until the lease of one before it has run out.
  WaitUntil(absl::Seconds(30), [&] {
    auto campaigned = etcd::Leadership::Campaign(client, clock, {.prefix = prefix, .id = "t", .address = "t:1", .ttl = ttl, .renew = renew});
    if (!campaigned.ok() || !campaigned->won) return false;
    store = std::make_unique<etcd::EtcdStore>(client, std::move(campaigned->won), prefix);
    return true;
  });
  return store;
}

std::unique_ptr<Store> OpenConformance(const std::string& folder) {
  return SharedEtcd() == nullptr ? nullptr : Lead(*SharedEtcd(), folder + "/");
}

const StoreKind kRealEtcd = {.name = "etcd", .durable = true, .open = OpenConformance};
INSTANTIATE_TEST_SUITE_P(Etcd, StoreConformance, ::testing::Values(kRealEtcd), [](const auto& info) { return info.param.name; });

// A server of its own for each test: it is killed and paused.
class RealEtcdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = EtcdServer::Start();
    if (!server_) GTEST_SKIP() << "no etcd here: install the package etcd-server";
  }
  std::unique_ptr<EtcdServer> server_;
};

TEST_F(RealEtcdTest, KilledAndRestartedItKeepsWhatItAnsweredAndTheLead) {
  auto store = Lead(*server_, "p/", &kClock, true, absl::Seconds(30));
  ASSERT_NE(store, nullptr);
  OwnerRecord owner = TestOwner("r");
  JobRecord job = TestJob("m", "r");
  for (int round = 0; round < 3; ++round) {
    ASSERT_OK_AND_ASSIGN(Revisions written, store->Commit({.owner = owner, .job = job, .add = {{"c", 1}}}));
    owner.revision = written.owner;
    job.revision = written.job;
    server_->Kill();
    const absl::Time asked = absl::Now();
    absl::Status away = store->Commit({.owner = owner, .job = job}).status();
    EXPECT_LT(absl::Now() - asked, 2 * kCallTimeout);
    EXPECT_THAT(away, HasReason("STORE_UNAVAILABLE"));
    EXPECT_TRUE(GetDetail(away)->in_doubt);
    EXPECT_THAT(store->GetOwner("r"), HasReason("STORE_UNAVAILABLE"));
    server_->Restart();
    ASSERT_TRUE(WaitUntil(absl::Seconds(20), [&] { return store->GetOwner("r").ok(); }));
    EXPECT_EQ(store->GetOwner("r")->revision, owner.revision);
    EXPECT_EQ(store->Counters("c")->at("c"), round + 1);
    ++owner.epoch;
    job.spec.expected_epoch = owner.epoch;
  }
}

TEST_F(RealEtcdTest, WhilePausedNothingHangsAndNothingIsDecidedTwice) {
  auto store = Lead(*server_, "p/", &kClock, true, absl::Seconds(60));
  ASSERT_NE(store, nullptr);
  OwnerRecord read = TestOwner("r");
  read.revision = store->Commit({.owner = read})->owner;
  server_->process().Pause();
  OwnerRecord commit = read;
  commit.epoch = 2;
  const absl::Time asked = absl::Now();
  absl::Status sent = store->Commit({.owner = commit}).status();
  EXPECT_LT(absl::Now() - asked, 2 * kCallTimeout);
  EXPECT_THAT(sent, HasReason("STORE_UNAVAILABLE"));
  EXPECT_TRUE(GetDetail(sent)->in_doubt);
  EXPECT_THAT(store->GetOwner("r"), HasReason("STORE_UNAVAILABLE"));
  server_->process().Continue();
  // The transaction that was not answered may be carried out now. Closing by another swap of what was read settles it, one way or the other.
  OwnerRecord close = read;
  close.cancelled = true;
  absl::Status closed;
  ASSERT_TRUE(WaitUntil(absl::Seconds(20), [&] {
    closed = store->Commit({.owner = close}).status();
    return !absl::IsUnavailable(closed);
  }));
  absl::SleepFor(absl::Milliseconds(300));
  OwnerRecord now = store->GetOwner("r").value();
  EXPECT_NE(now.epoch == 2, now.cancelled) << "both swaps of one revision were done, or none";
  EXPECT_TRUE(now.cancelled || !closed.ok());
}

TEST_F(RealEtcdTest, ALeaderThatCannotRenewStopsBeforeAnotherMayLead) {
  auto one = Lead(*server_, "p/", &kClock, true, absl::Seconds(4));
  ASSERT_NE(one, nullptr);
  ASSERT_OK(one->Commit({.owner = TestOwner("r")}));
  absl::SleepFor(absl::Seconds(5));
  EXPECT_OK(one->Leading()) << "renewed";
  server_->process().Pause();
  const absl::Time paused = absl::Now();
  ASSERT_TRUE(WaitUntil(absl::Seconds(10), [&] { return !one->Leading().ok(); }));
  EXPECT_LT(absl::Now() - paused, absl::Seconds(6));
  const absl::Time asked = absl::Now();
  EXPECT_THAT(one->Commit({.owner = TestOwner("r2")}), HasReason("NOT_LEADER"));
  EXPECT_LT(absl::Now() - asked, absl::Milliseconds(500)) << "it asks nobody";
  server_->process().Continue();
  auto two = Lead(*server_, "p/");
  ASSERT_NE(two, nullptr);
  EXPECT_GT(two->leader_term(), one->leader_term());
  EXPECT_OK(two->GetOwner("r"));
}

// Its clock stands still, as that of a process that is stopped between its check and its write.
TEST_F(RealEtcdTest, APausedFormerLeadersLateSwapIsRefusedByItsTerm) {
  FakeClock stopped;
  auto one = Lead(*server_, "p/", &stopped, /*renew=*/false, absl::Seconds(1));
  ASSERT_NE(one, nullptr);
  OwnerRecord read = TestOwner("r");
  read.revision = one->Commit({.owner = read})->owner;
  auto two = Lead(*server_, "p/");  // waits for the lease to run out
  ASSERT_NE(two, nullptr);
  ASSERT_OK(one->Leading());
  read.epoch = 2;
  EXPECT_THAT(one->Commit({.owner = read}), HasReason("NOT_LEADER"));
  EXPECT_EQ(two->GetOwner("r")->epoch, 1u);
  EXPECT_OK(two->Commit({.owner = read}));
}

TEST_F(RealEtcdTest, AFullDatabaseIsTypedAndChangesNothing) {
  auto store = Lead(*server_, "p/");
  ASSERT_NE(store, nullptr);
  ASSERT_OK(store->Commit({.owner = TestOwner("first")}));
  JobRecord job = TestJob("m", "r");
  job.spec.reason = std::string(2 << 20, 'x');  // above etcd's 1.5 MiB a request
  absl::Status full = store->Commit({.job = job}).status();
  EXPECT_THAT(full, HasReason("DISK_FULL"));
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(server_->endpoint())));
  EXPECT_TRUE(absl::IsNotFound(store->GetJob("m").status()));
  EXPECT_OK(store->GetOwner("first"));
}

TEST(EtcdSpec, IsParsedOrNamedAsWrong) {
  EtcdOptions options = ParseEtcdSpec("etcd:a:1,[::1]:2/team/x/").value();
  EXPECT_EQ(options.endpoints, (std::vector<std::string>{"a:1", "[::1]:2"}));
  EXPECT_EQ(options.prefix, "team/x/");
  EXPECT_EQ(ParseEtcdSpec("etcd:a:1")->prefix, "riskkv/");
  for (const char* bad : {"etcd:", "etcd:a", "etcd:a:1,", "etcd:a:1,b", "etcd:a:1/"}) {
    EXPECT_THAT(ParseEtcdSpec(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad))) << bad;
  }
}

}  // namespace
}  // namespace riskkv

// Election, fencing and doubt, over a fake etcd and a clock that only the test moves.
#include "common/store/etcd/etcd_store.h"

#include "common/base/status.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/unit/store/etcd_fixture.h"
#include "tests/unit/store/test_records.h"

namespace riskkv {
namespace {

using ::riskkv::testing::FakeEtcd;
using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

class EtcdStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<etcd::EtcdStore> Lead(const std::string& id) { return LeadingStore(etcd_, &clock_, id, &leadership_); }
  OwnerRecord Written(Store& store, OwnerRecord record) {
    auto revisions = store.Commit({.owner = record});
    EXPECT_OK(revisions);
    if (revisions.ok()) record.revision = revisions->owner;
    return record;
  }

  FakeClock clock_;
  std::shared_ptr<FakeEtcd> etcd_ = std::make_shared<FakeEtcd>(&clock_);
  etcd::Leadership* leadership_ = nullptr;
};

TEST_F(EtcdStoreTest, OnlyOneLeadsAndTheOthersLearnWhereItIs) {
  auto one = Lead("one");
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(one->leader_term(), 1u);
  auto other = etcd::Leadership::Campaign(etcd_, &clock_, FakeElection("two"));
  ASSERT_OK(other);
  EXPECT_EQ(other->won, nullptr);
  EXPECT_EQ(other->leader.id, "one");
  EXPECT_EQ(other->leader.address, "one:7070");
  EXPECT_EQ(other->leader.term, 1u);
  EXPECT_EQ(etcd::Leadership::Look(*etcd_, FakeElection("two")).value()->address, "one:7070");
}

TEST_F(EtcdStoreTest, WhoStopsGivesTheLeadUpAtOnce) {
  Lead("one").reset();
  EXPECT_FALSE(etcd::Leadership::Look(*etcd_, FakeElection("two")).value().has_value());
  auto two = Lead("two");
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(two->leader_term(), 2u);
}

TEST_F(EtcdStoreTest, TheLeaderStopsBeforeItsLeaseRunsOutAtTheServer) {
  auto one = Lead("one");
  clock_.Advance(absl::Milliseconds(8990));
  EXPECT_OK(one->Leading());
  clock_.Advance(absl::Milliseconds(20));
  EXPECT_THAT(one->Leading(), HasReason("NOT_LEADER"));
  EXPECT_THAT(one->GetOwner("r"), HasReason("NOT_LEADER"));
  EXPECT_THAT(one->Commit({.owner = TestOwner("r")}), HasReason("NOT_LEADER"));
  EXPECT_EQ(Lead("two"), nullptr) << "the lease has not run out yet";
  clock_.Advance(absl::Seconds(1));
  EXPECT_NE(Lead("two"), nullptr);
}

TEST_F(EtcdStoreTest, RenewalsKeepTheLeadAndCountFromBeforeTheyWereSent) {
  auto one = Lead("one");
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(absl::Seconds(8));
    ASSERT_TRUE(leadership_->Renew());
    ASSERT_OK(one->Leading());
  }
  etcd_->down = true;
  clock_.Advance(absl::Seconds(5));
  EXPECT_TRUE(leadership_->Renew()) << "a renewal that is not answered ends nothing by itself";
  clock_.Advance(absl::Seconds(4));
  EXPECT_FALSE(leadership_->Renew());
  etcd_->down = false;
  EXPECT_FALSE(leadership_->Renew()) << "lost once is lost for good";
  EXPECT_THAT(one->Leading(), HasReason("NOT_LEADER"));
}

// The clock of this test stands still for the paused leader: it believes to the end that it leads, as a process does that was stopped
// between its check and its write.
TEST_F(EtcdStoreTest, APausedLeadersLateSwapIsRefusedByItsTerm) {
  FakeClock stopped;
  etcd::ElectionOptions options = FakeElection("one");
  auto won = etcd::Leadership::Campaign(etcd_, &stopped, options);
  ASSERT_OK(won);
  etcd::EtcdStore one(etcd_, std::move(won->won), options.prefix);
  OwnerRecord read = Written(one, TestOwner("r"));
  clock_.Advance(absl::Seconds(11));
  auto two = Lead("two");
  ASSERT_NE(two, nullptr);
  ASSERT_OK(one.Leading());
  read.epoch = 2;
  absl::Status late = one.Commit({.owner = read}).status();  // the record is still at the revision it read
  EXPECT_THAT(late, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("two at two:7070")));
  EXPECT_THAT(late, HasReason("NOT_LEADER"));
  EXPECT_THAT(one.Leading(), HasReason("NOT_LEADER"));
  EXPECT_EQ(two->GetOwner("r")->epoch, 1u);
  EXPECT_THAT(one.PruneJobs(absl::InfiniteFuture(), 0), HasReason("NOT_LEADER"));
}

TEST_F(EtcdStoreTest, ATransactionOnItsWayDuringAChangeOfLeaderIsRefused) {
  auto one = Lead("one");
  OwnerRecord read = Written(*one, TestOwner("r"));
  read.epoch = 7;
  etcd_->hold_next = true;
  absl::Status sent = one->Commit({.owner = read}).status();
  EXPECT_THAT(sent, HasReason("STORE_UNAVAILABLE"));
  EXPECT_TRUE(GetDetail(sent)->in_doubt);
  clock_.Advance(absl::Seconds(11));
  auto two = Lead("two");
  ASSERT_NE(two, nullptr);
  EXPECT_FALSE(etcd_->ReleaseHeld());
  EXPECT_EQ(two->GetOwner("r")->epoch, 1u);
}

TEST_F(EtcdStoreTest, ALateTransactionAndWhatWasWrittenInBetweenExcludeEachOther) {
  auto one = Lead("one");
  OwnerRecord read = Written(*one, TestOwner("r"));
  OwnerRecord commit = read, close = read;
  commit.epoch = 2;
  close.cancelled = true;
  etcd_->hold_next = true;
  EXPECT_THAT(one->Commit({.owner = commit}), HasReason("STORE_UNAVAILABLE"));
  EXPECT_EQ(one->GetOwner("r")->epoch, 1u);  // a read proves nothing
  EXPECT_OK(one->Commit({.owner = close}));
  EXPECT_FALSE(etcd_->ReleaseHeld());
  EXPECT_EQ(one->GetOwner("r")->epoch, 1u);
  EXPECT_TRUE(one->GetOwner("r")->cancelled);
}

TEST_F(EtcdStoreTest, ALostAnswerIsInDoubtAndFoundByTheNextSwap) {
  auto one = Lead("one");
  OwnerRecord read = Written(*one, TestOwner("r"));
  read.epoch = 2;
  etcd_->lose_answer = true;
  absl::Status lost = one->Commit({.owner = read, .add = {{"c", 1}}}).status();
  EXPECT_THAT(lost, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(GetDetail(lost)->in_doubt);
  EXPECT_THAT(one->Commit({.owner = read}), StatusIs(absl::StatusCode::kAborted, HasSubstr("owner record of r")));
  EXPECT_EQ(one->GetOwner("r")->epoch, 2u);
  EXPECT_EQ(one->Counters("c")->at("c"), 1);
}

TEST_F(EtcdStoreTest, AReadThatIsNotAnsweredIsNotInDoubt) {
  auto one = Lead("one");
  etcd_->down = true;
  absl::Status status = one->GetOwner("r").status();
  EXPECT_THAT(status, HasReason("STORE_UNAVAILABLE"));
  EXPECT_FALSE(GetDetail(status)->in_doubt);
}

TEST_F(EtcdStoreTest, ACampaignWhoseAnswerIsLostDoesNotLeaveAGhostLeading) {
  etcd_->lose_answer = false;
  etcd_->hold_next = false;
  // The campaign reads, is granted a lease, and then its transaction is done but not answered.
  struct LosesTheSecond : FakeEtcd {
    using FakeEtcd::FakeEtcd;
    int txns = 0;
    absl::StatusOr<etcd::TxnReply> Txn(const etcd::TxnRequest& request) override {
      if (++txns == 2) lose_answer = true;
      return FakeEtcd::Txn(request);
    }
  };
  auto etcd = std::make_shared<LosesTheSecond>(&clock_);
  EXPECT_THAT(etcd::Leadership::Campaign(etcd, &clock_, FakeElection("one")), HasReason("STORE_UNAVAILABLE"));
  auto again = etcd::Leadership::Campaign(etcd, &clock_, FakeElection("one"));
  ASSERT_OK(again);
  ASSERT_NE(again->won, nullptr);
  EXPECT_EQ(again->won->term(), 2u);  // the first one was counted
}

TEST_F(EtcdStoreTest, ATermThatIsNoNumberIsNamed) {
  ASSERT_OK(etcd_->Txn({.success = {{.key = "riskkv/term", .value = "seven"}}}));
  EXPECT_THAT(etcd::Leadership::Campaign(etcd_, &clock_, FakeElection("one")),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("riskkv/term")));
}

TEST_F(EtcdStoreTest, DamagedEntriesAreNamed) {
  auto one = Lead("one");
  ASSERT_OK(etcd_->Txn({.success = {{.key = "riskkv/index/r/m", .value = "{}"}, {.key = "riskkv/jobs/m", .value = "x"},
                                    {.key = "riskkv/counters/c", .value = "1x"}}}));
  EXPECT_THAT(one->ListJobs({}), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("riskkv/index/r/m")));
  EXPECT_THAT(one->GetJob("m"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("job record m")));
  EXPECT_THAT(one->Counters(""), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("riskkv/counters/c")));
}

}  // namespace
}  // namespace riskkv

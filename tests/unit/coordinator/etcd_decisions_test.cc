// Decisions over etcd's store: a transaction that was not answered may still happen, after everything that was read since.
#include "common/store/etcd/etcd_store.h"
#include "gtest/gtest.h"
#include "services/coordinator/core/decisions.h"
#include "tests/testing/status_matchers.h"
#include "tests/unit/store/etcd_fixture.h"

namespace riskkv::coordinator {
namespace {

using ::riskkv::testing::FakeEtcd;
using ::riskkv::testing::HasReason;

class EtcdDecisionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = LeadingStore(etcd_, &clock_, "one");
    ASSERT_NE(store_, nullptr);
    decisions_ = std::make_unique<Decisions>(store_.get(), &clock_);
    job_ = Begin();
    ASSERT_NE(job_, nullptr);
  }
  // A job with an open attempt.
  std::unique_ptr<Job> Begin() {
    JobRecord record;
    record.spec.migration_id = "m1";
    record.spec.request_id = "bootA-01";
    auto job = std::make_unique<Job>(record, &clock_, absl::Seconds(30));
    job->Emit(1, MigrationState::kAccepted, 1);
    EXPECT_OK(job->Save(*store_, {}));
    AttemptRecord attempt{.attempt = 1, .mode = Mode::kFull, .epoch = 1, .source = {"A", "bootA", "a:1"}, .destination = {"B", "bootB", "b:1"},
                          .leader_term = store_->leader_term()};
    EXPECT_OK(decisions_->Open(*job, attempt));
    fence_ = FenceOf(job->Snapshot(), attempt);
    return job;
  }
  absl::Status why_ = MakeError(absl::StatusCode::kDeadlineExceeded, "DEADLINE_TOTAL", "late");

  FakeClock clock_;
  std::shared_ptr<FakeEtcd> etcd_ = std::make_shared<FakeEtcd>(&clock_);
  std::unique_ptr<Store> store_;
  std::unique_ptr<Decisions> decisions_;
  std::unique_ptr<Job> job_;
  Fence fence_;
};

TEST_F(EtcdDecisionsTest, ALateCommitLosesAgainstTheCloseThatCameInBetween) {
  etcd_->hold_next = true;
  EXPECT_THAT(decisions_->Prepared(job_.get(), fence_, 22), HasReason("STORE_UNAVAILABLE"));
  EXPECT_EQ(decisions_->Look(job_.get(), fence_)->decision, Decision::kOpen);
  EXPECT_EQ(decisions_->Close(*job_, fence_, why_)->decision, Decision::kAborted);
  EXPECT_FALSE(etcd_->ReleaseHeld());
  EXPECT_EQ(decisions_->Prepared(job_.get(), fence_, 22)->decision, Decision::kAborted);
  EXPECT_EQ(store_->GetOwner("bootA-01")->epoch, 1u);
  EXPECT_EQ(store_->GetJob("m1")->attempts[0].decision, Decision::kAborted);
}

TEST_F(EtcdDecisionsTest, AfterALateCommitTheCloseAnswersCommitted) {
  etcd_->hold_next = true;
  EXPECT_THAT(decisions_->Prepared(job_.get(), fence_, 22), HasReason("STORE_UNAVAILABLE"));
  EXPECT_EQ(decisions_->Look(job_.get(), fence_)->decision, Decision::kOpen);  // read, and settled nothing
  // It comes between what Close reads and what Close writes.
  struct Late : Store {
    Late(Store* s, FakeEtcd* e) : store(s), etcd(e) {}
    Store* store;
    FakeEtcd* etcd;
    uint64_t leader_term() const override { return store->leader_term(); }
    std::string name() const override { return store->name(); }
    absl::StatusOr<OwnerRecord> GetOwner(const std::string& id) override { return store->GetOwner(id); }
    absl::StatusOr<JobRecord> GetJob(const std::string& id) override { return store->GetJob(id); }
    absl::StatusOr<std::vector<JobRecord>> ListJobs(const JobFilter& f) override { return store->ListJobs(f); }
    absl::StatusOr<Revisions> Commit(const Transaction& t) override {
      etcd->ReleaseHeld();
      return store->Commit(t);
    }
    absl::StatusOr<std::map<std::string, int64_t>> Counters(const std::string& p) override { return store->Counters(p); }
    absl::StatusOr<int64_t> PruneJobs(absl::Time b, int64_t k) override { return store->PruneJobs(b, k); }
    absl::StatusOr<std::vector<OwnerRecord>> ListOwners(const std::string& a, int l) override { return store->ListOwners(a, l); }
    absl::StatusOr<bool> RemoveOwner(const OwnerRecord& r) override { return store->RemoveOwner(r); }
  } late(store_.get(), etcd_.get());
  Decisions over_late(&late, &clock_);
  EXPECT_EQ(over_late.Close(*job_, fence_, why_)->decision, Decision::kCommitted);
  EXPECT_EQ(store_->GetOwner("bootA-01")->epoch, 2u);
  EXPECT_EQ(job_->Attempt(1)->decision, Decision::kCommitted);
  EXPECT_EQ(decisions_->Resumed(job_.get(), fence_, 2)->decision, Decision::kResumed);
}

TEST_F(EtcdDecisionsTest, AFormerLeaderDecidesNothing) {
  clock_.Advance(absl::Seconds(11));
  auto two = LeadingStore(etcd_, &clock_, "two");
  ASSERT_NE(two, nullptr);
  EXPECT_THAT(decisions_->Prepared(job_.get(), fence_, 22), HasReason("NOT_LEADER"));
  EXPECT_THAT(decisions_->Close(*job_, fence_, why_), HasReason("NOT_LEADER"));
  // The new leader finds the attempt open, and decides it, under the fence of the term it was opened in.
  Job found(two->GetJob("m1").value(), &clock_, absl::Seconds(30));
  Decisions now(two.get(), &clock_);
  EXPECT_EQ(now.Prepared(&found, fence_, 22)->decision, Decision::kCommitted);
}

}  // namespace
}  // namespace riskkv::coordinator

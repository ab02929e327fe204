// What every store must do: one suite over all of them. A test program includes it once and instantiates StoreConformance with its
// stores: memory, SQLite and etcd's core over a fake etcd in unit/store, a real etcd in integration/etcd.
#ifndef RISKKV_TESTS_UNIT_STORE_STORE_CONFORMANCE_H_
#define RISKKV_TESTS_UNIT_STORE_STORE_CONFORMANCE_H_

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/store/store.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"
#include "tests/unit/store/test_records.h"

namespace riskkv {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;

struct StoreKind {
  std::string name;
  bool durable = false;
  // Opens the store of this test; the same one when it is opened again. Null: it cannot be had here, and the test is skipped.
  std::function<std::unique_ptr<Store>(const std::string& folder)> open;
};

class StoreConformance : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "riskkv-store-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    store_ = GetParam().open(folder_);
    if (!store_) GTEST_SKIP() << "no " << GetParam().name << " here";
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Reopen() {
    store_.reset();
    store_ = GetParam().open(folder_);
  }

  std::string folder_;
  std::unique_ptr<Store> store_;
};

TEST_P(StoreConformance, AbsentRecordsAreNotFound) {
  EXPECT_THAT(store_->GetOwner("r"), HasReason("UNKNOWN_REQUEST"));
  EXPECT_THAT(store_->GetJob("m"), HasReason("UNKNOWN_MIGRATION"));
  EXPECT_TRUE(store_->ListJobs({}).value().empty());
}

TEST_P(StoreConformance, InsertsAndUpdatesByRevision) {
  ASSERT_OK_AND_ASSIGN(Revisions first, store_->Commit({.owner = TestOwner("r"), .job = TestJob("m", "r")}));
  EXPECT_GT(first.owner, 0u);
  EXPECT_GT(first.job, 0u);
  ASSERT_OK_AND_ASSIGN(OwnerRecord owner, store_->GetOwner("r"));
  EXPECT_EQ(owner.revision, first.owner);
  owner.epoch = 2;
  ASSERT_OK_AND_ASSIGN(Revisions second, store_->Commit({.owner = owner}));
  EXPECT_GT(second.owner, first.owner);
  EXPECT_EQ(second.job, 0u);  // was not part of it
  EXPECT_EQ(store_->GetOwner("r")->epoch, 2u);
  EXPECT_EQ(store_->GetOwner("r")->revision, second.owner);
  EXPECT_EQ(store_->GetJob("m")->revision, first.job);
}

TEST_P(StoreConformance, AStaleRevisionChangesNothing) {
  ASSERT_OK(store_->Commit({.owner = TestOwner("r"), .job = TestJob("m", "r")}));
  OwnerRecord owner = store_->GetOwner("r").value();
  JobRecord job = store_->GetJob("m").value();
  ASSERT_OK(store_->Commit({.owner = owner}));  // somebody else
  owner.epoch = 9;
  job.state = MigrationState::kCommitted;
  EXPECT_THAT(store_->Commit({.owner = owner, .job = job, .add = {{"c", 1}}}), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(store_->GetOwner("r")->epoch, 1u);
  EXPECT_EQ(store_->GetJob("m")->state, MigrationState::kAccepted);
  EXPECT_TRUE(store_->Counters("").value().empty());
  // Inserting what exists, and updating what does not, are refused as well.
  EXPECT_THAT(store_->Commit({.owner = TestOwner("r")}), StatusIs(absl::StatusCode::kAborted));
  OwnerRecord absent = TestOwner("other");
  absent.revision = 7;
  EXPECT_THAT(store_->Commit({.owner = absent}), StatusIs(absl::StatusCode::kAborted));
}

TEST_P(StoreConformance, OwnerAndJobChangeTogetherOrNotAtAll) {
  ASSERT_OK(store_->Commit({.owner = TestOwner("r"), .job = TestJob("m", "r")}));
  OwnerRecord owner = store_->GetOwner("r").value();
  owner.epoch = 2;
  JobRecord stale = TestJob("m", "r");  // revision 0: must be absent, and is not
  EXPECT_THAT(store_->Commit({.owner = owner, .job = stale}), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(store_->GetOwner("r")->epoch, 1u);
}

TEST_P(StoreConformance, OnlyOneOfManySwapsWins) {
  ASSERT_OK(store_->Commit({.owner = TestOwner("r")}));
  const OwnerRecord read = store_->GetOwner("r").value();
  std::atomic<int> won{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      OwnerRecord mine = read;
      mine.epoch = static_cast<uint64_t>(100 + i);
      if (store_->Commit({.owner = mine}).ok()) ++won;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(won, 1);
}

TEST_P(StoreConformance, ListsNewestFirstWithFilters) {
  for (int i = 0; i < 5; ++i) {
    JobRecord job = TestJob("m" + std::to_string(i), i % 2 ? "odd" : "even", i);
    if (i < 2) job.state = MigrationState::kSucceeded;
    ASSERT_OK(store_->Commit({.job = job}));
  }
  auto ids = [](const std::vector<JobRecord>& jobs) {
    std::string all;
    for (const JobRecord& job : jobs) all += job.spec.migration_id + " ";
    return all;
  };
  EXPECT_EQ(ids(store_->ListJobs({}).value()), "m4 m3 m2 m1 m0 ");
  EXPECT_EQ(ids(store_->ListJobs({.active_only = true}).value()), "m4 m3 m2 ");
  EXPECT_EQ(ids(store_->ListJobs({.request_id = "odd"}).value()), "m3 m1 ");
  EXPECT_EQ(ids(store_->ListJobs({.limit = 2}).value()), "m4 m3 ");
}

TEST_P(StoreConformance, PrunesTerminalJobsOnly) {
  for (int i = 0; i < 6; ++i) {
    JobRecord job = TestJob("m" + std::to_string(i), "r", i);
    if (i != 0) job.state = MigrationState::kStayed;
    ASSERT_OK(store_->Commit({.job = job}));
  }
  EXPECT_EQ(store_->PruneJobs(absl::FromUnixSeconds(1003), 100).value(), 2);  // m1, m2
  EXPECT_EQ(store_->PruneJobs(absl::FromUnixSeconds(0), 1).value(), 2);       // m3, m4: beyond the newest one
  EXPECT_OK(store_->GetJob("m0"));
  EXPECT_OK(store_->GetJob("m5"));
  EXPECT_THAT(store_->GetJob("m4"), HasReason("UNKNOWN_MIGRATION"));
}

TEST_P(StoreConformance, ManyJobsAreListedAndPrunedWhole) {
  constexpr int kJobs = 150;  // more than one page of anything
  for (int i = 0; i < kJobs; ++i) {
    JobRecord job = TestJob("m" + std::to_string(1000 + i), "r" + std::to_string(i % 3), i);
    job.state = i % 2 ? MigrationState::kAborted : MigrationState::kPrecopy;
    ASSERT_OK(store_->Commit({.job = job}));
  }
  EXPECT_EQ(store_->ListJobs({}).value().size(), static_cast<std::size_t>(kJobs));
  EXPECT_EQ(store_->ListJobs({.active_only = true, .request_id = "r0", .limit = 20}).value().size(), 20u);
  EXPECT_EQ(store_->PruneJobs(absl::InfiniteFuture(), 0).value(), kJobs / 2);
  EXPECT_EQ(store_->ListJobs({}).value().size(), static_cast<std::size_t>(kJobs / 2));
  EXPECT_EQ(store_->PruneJobs(absl::InfiniteFuture(), 0).value(), 0);
}

TEST_P(StoreConformance, AJobThatBecomesTerminalLeavesTheActiveOnes) {
  ASSERT_OK(store_->Commit({.job = TestJob("m", "r")}));
  JobRecord job = store_->GetJob("m").value();
  job.state = MigrationState::kSucceeded;
  ASSERT_OK(store_->Commit({.job = job}));
  EXPECT_TRUE(store_->ListJobs({.active_only = true}).value().empty());
  EXPECT_EQ(store_->ListJobs({}).value().size(), 1u);
}

TEST_P(StoreConformance, OwnersAreListedInPages) {
  for (const char* id : {"b", "a/1", "c", "a"}) ASSERT_OK(store_->Commit({.owner = TestOwner(id)}));
  std::vector<std::string> seen;
  std::string after;
  for (;;) {
    std::vector<OwnerRecord> page = store_->ListOwners(after, 3).value();
    for (const OwnerRecord& owner : page) {
      seen.push_back(owner.request_id);
      EXPECT_GT(owner.revision, 0u);
    }
    if (page.empty()) break;
    after = page.back().request_id;
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "a/1", "b", "c"}));
}

TEST_P(StoreConformance, AnOwnerRecordIsKeptWhileAJobNamesItsRequest) {
  ASSERT_OK(store_->Commit({.owner = TestOwner("r"), .job = TestJob("m", "r")}));
  ASSERT_OK(store_->Commit({.owner = TestOwner("r2"), .job = TestJob("m2", "r2")}));
  OwnerRecord owner = store_->GetOwner("r").value();
  EXPECT_FALSE(store_->RemoveOwner(owner).value());
  JobRecord job = store_->GetJob("m").value();
  job.state = MigrationState::kStayed;
  ASSERT_OK(store_->Commit({.job = job}));
  EXPECT_FALSE(store_->RemoveOwner(owner).value());
  ASSERT_EQ(store_->PruneJobs(absl::InfiniteFuture(), 0).value(), 1);
  ASSERT_OK(store_->Commit({.owner = owner}));
  EXPECT_FALSE(store_->RemoveOwner(owner).value());  // changed since it was read
  EXPECT_TRUE(store_->RemoveOwner(store_->GetOwner("r").value()).value());
  EXPECT_THAT(store_->GetOwner("r"), HasReason("UNKNOWN_REQUEST"));
  EXPECT_OK(store_->GetOwner("r2"));
  EXPECT_OK(store_->Commit({.owner = TestOwner("r")}));  // and may come again
}

TEST_P(StoreConformance, IdsMayHoldAnything) {
  const std::string odd = "a/b\"c'%_ \xc3\xa4";
  ASSERT_OK(store_->Commit({.owner = TestOwner(odd), .job = TestJob(odd, odd)}));
  ASSERT_OK(store_->Commit({.job = TestJob("b/m", "a")}));  // in etcd: below the other's folder
  EXPECT_EQ(store_->GetOwner(odd)->request_id, odd);
  EXPECT_EQ(store_->GetJob(odd)->spec.migration_id, odd);
  EXPECT_EQ(store_->ListJobs({.request_id = odd}).value().size(), 1u);
  EXPECT_EQ(store_->ListJobs({.request_id = "a"}).value().size(), 1u);
}

TEST_P(StoreConformance, CountersAddUp) {
  ASSERT_OK(store_->Commit({.add = {{"set/a", 2}, {"set/b", 1}}}));
  ASSERT_OK(store_->Commit({.add = {{"set/a", 3}, {"other", 1}}}));
  EXPECT_EQ(store_->Counters("set/").value(), (std::map<std::string, int64_t>{{"set/a", 5}, {"set/b", 1}}));
}

TEST_P(StoreConformance, SurvivesReopeningWithAHigherTerm) {
  if (!GetParam().durable) GTEST_SKIP();
  uint64_t term = store_->leader_term();
  ASSERT_OK(store_->Commit({.owner = TestOwner("r", 4), .job = TestJob("m", "r"), .add = {{"c", 1}}}));
  Reopen();
  EXPECT_EQ(store_->leader_term(), term + 1);
  EXPECT_EQ(store_->GetOwner("r")->epoch, 4u);
  EXPECT_OK(store_->GetJob("m"));
  EXPECT_EQ(store_->Counters("c").value().at("c"), 1);
}

}  // namespace riskkv

#endif  // RISKKV_TESTS_UNIT_STORE_STORE_CONFORMANCE_H_

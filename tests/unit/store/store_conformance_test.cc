#include "tests/unit/store/store_conformance.h"

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/store/memory_store.h"
#include "common/store/sqlite_store.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;

std::unique_ptr<Store> OpenSqlite(const std::string& folder) {
  return OpenStore("sqlite:" + folder + "/store.db").value();
}

const StoreKind kKinds[] = {
    {.name = "memory", .open = [](const std::string&) -> std::unique_ptr<Store> { return std::make_unique<MemoryStore>(); }},
    {.name = "sqlite", .durable = true, .open = OpenSqlite},
};

class StoreConformance : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "riskkv-store-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    store_ = GetParam().open(folder_);
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
  EXPECT_EQ(first.owner, 1u);
  EXPECT_EQ(first.job, 1u);
  ASSERT_OK_AND_ASSIGN(OwnerRecord owner, store_->GetOwner("r"));
  EXPECT_EQ(owner.revision, 1u);
  owner.epoch = 2;
  ASSERT_OK(store_->Commit({.owner = owner}));
  EXPECT_EQ(store_->GetOwner("r")->epoch, 2u);
  EXPECT_EQ(store_->GetOwner("r")->revision, 2u);
  EXPECT_EQ(store_->GetJob("m")->revision, 1u);
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
  absent.revision = 3;
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

INSTANTIATE_TEST_SUITE_P(All, StoreConformance, ::testing::ValuesIn(kKinds),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace riskkv

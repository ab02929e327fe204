// What is said of an attempt to whoever asks: by another fence than its own, and when records of it are gone.
#include <optional>
#include <utility>

#include "tests/unit/coordinator/manager_fixture.h"

namespace riskkv::coordinator {
namespace {

using ::riskkv::testing::HasReason;

class FenceTest : public ManagerTest {};

// protocol.md, 4: lower ones, and those of another boot, are refused and counted, by every call, before and after the decision.
TEST_F(FenceTest, AFenceThatIsNotTheAttemptsOwnIsRefusedAndCounted) {
  struct Row {
    const char* what;
    void (*change)(Fence&);
  };
  const Row rows[] = {
      {"epoch", [](Fence& f) { f.epoch = 9; }},
      {"leader term", [](Fence& f) { f.leader_term = 0; }},
      {"source boot", [](Fence& f) { f.source_boot_id = "bootA0"; }},
      {"destination boot", [](Fence& f) { f.destination_boot_id = "bootB0"; }},
      {"request", [](Fence& f) { f.request_id = "bootA-02"; }},
  };
  auto job = UpToFinalAndWait();
  int64_t refused = 0;
  auto refuse_all = [&] {
    for (const Row& row : rows) {
      SCOPED_TRACE(row.what);
      Fence stale = fence_;
      row.change(stale);
      const OwnerRecord before = Owner();
      EXPECT_EQ(manager_->Prepared(stale, 22)->decision, Decision::kAborted);
      EXPECT_EQ(manager_->Resumed(stale, 2)->decision, Decision::kRolledBack);
      EXPECT_THAT(manager_->Resolve(stale, true, "source"), HasReason("STALE_FENCE"));
      EXPECT_EQ(manager_->stale_refusals(), refused += 3);
      EXPECT_EQ(Owner().revision, before.revision) << "nothing was decided";
    }
  };
  refuse_all();
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kCommitted);
  refuse_all();
  EXPECT_EQ(manager_->Resumed(fence_, 2)->decision, Decision::kResumed);
  EXPECT_EQ(Await(*job).state, MigrationState::kSucceeded);
  EXPECT_EQ(manager_->stale_refusals(), refused);
}

TEST_F(FenceTest, ResolveOfAnAttemptNobodyKnows) {
  // It may have committed before its records were removed: to call it aborted would let its source go on beside the new owner.
  Fence fence{.migration_id = "never", .attempt = 1, .epoch = 1, .request_id = kRequest};
  EXPECT_THAT(manager_->Resolve(fence, true, "source"), HasReason("UNKNOWN_ATTEMPT"));
  EXPECT_THAT(manager_->Prepared(fence, 1), HasReason("UNKNOWN_ATTEMPT"));
  EXPECT_THAT(manager_->Resumed(fence, 2), HasReason("UNKNOWN_ATTEMPT"));
  EXPECT_THAT(manager_->Prepared(Fence{}, 1), HasReason("BAD_ARGUMENT"));
}

// The job is gone, the owner record is there: what it can and cannot tell.
TEST_F(FenceTest, AnAttemptWhoseJobIsGoneIsAnsweredFromTheOwnerRecord) {
  OwnerRecord record;
  record.request_id = kRequest;
  record.owner = Worker("B", "bootB").name;
  record.epoch = 5;
  record.last_committed = "m9";
  record.last_attempt = 1;
  Fence fence{.migration_id = "m1", .attempt = 1, .request_id = kRequest, .source_boot_id = "bootA", .destination_boot_id = "bootC"};
  struct Row {
    const char* what;
    uint64_t fence_epoch;
    bool rolled_back;
    const char* owner;
    std::optional<Decision> source, destination;  // none: UNKNOWN_ATTEMPT
  };
  const Row rows[] = {
      {"closed: the epoch is the one it opened at", 5, false, "B", Decision::kAborted, Decision::kAborted},
      {"the request went on: it may have committed", 4, false, "B", Decision::kResumed, Decision::kRolledBack},
      {"the request came back to its source", 4, true, "A", Decision::kRolledBack, Decision::kRolledBack},
      {"the store knows less", 6, false, "B", std::nullopt, std::nullopt},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    record.rolled_back = row.rolled_back;
    record.owner = Worker(row.owner, std::string("boot") + row.owner).name;
    record.revision = store_->GetOwner(kRequest).value_or(OwnerRecord()).revision;
    ASSERT_OK(store_->Commit({.owner = record}));
    fence.epoch = row.fence_epoch;
    for (const auto& [side, expected] : {std::pair{"source", row.source}, std::pair{"destination", row.destination}}) {
      auto reply = manager_->Resolve(fence, true, side);
      if (expected) {
        ASSERT_OK(reply);
        EXPECT_EQ(reply->decision, *expected) << side;
      } else {
        EXPECT_THAT(reply, HasReason("UNKNOWN_ATTEMPT"));
      }
    }
  }
}

}  // namespace
}  // namespace riskkv::coordinator

#include "common/migration/transitions.h"

#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kRequest[] = "bootA-0001";
const WorkerName kA{.id = "A", .boot_id = "bootA", .address = "a:1"};
const WorkerName kB{.id = "B", .boot_id = "bootB", .address = "b:1"};
const WorkerName kC{.id = "C", .boot_id = "bootC", .address = "c:1"};

Fence FenceFor(uint32_t attempt, uint64_t epoch = 1, const WorkerName& from = kA, const WorkerName& to = kB) {
  return {.migration_id = "m1",
          .attempt = attempt,
          .epoch = epoch,
          .request_id = kRequest,
          .source_boot_id = from.boot_id,
          .destination_boot_id = to.boot_id,
          .leader_term = 7};
}

OwnerRecord Opened(uint32_t attempt = 1) {
  OpenAttempt open{.migration_id = "m1", .attempt = attempt, .destination = kB, .leader_term = 7};
  return OpenNewAttempt(ImplicitOwner(kRequest, kA), open, 1).value();
}

TEST(Transitions, AWorkerWithAHigherEpochReplacesAllThatTheRecordSaid) {
  OwnerRecord committed = CommitAttempt(Opened(), FenceFor(1), 9).value();
  committed.cancelled = true;
  committed.revision = 4;
  OwnerRecord next = FollowWorker(committed, kC, 6, 21).value();
  EXPECT_EQ(next.owner, kC);
  EXPECT_EQ(next.epoch, 6u);
  EXPECT_EQ(next.start_index, 21);
  EXPECT_TRUE(next.cancelled);
  EXPECT_EQ(next.revision, 4u);
  EXPECT_THAT(ResumeOwner(next, FenceFor(1), 2), HasReason("NOT_OWNER"));
  EXPECT_THAT(RollBack(next, FenceFor(1)), HasReason("UNKNOWN_ATTEMPT"));
  EXPECT_FALSE(FollowWorker(Opened(), kC, 2, 0)->open.has_value());
  EXPECT_THAT(FollowWorker(committed, kC, 2, 0), HasReason("EPOCH_CONFLICT"));
}

TEST(Transitions, CommitMovesOwnerEpochAndStartIndex) {
  OwnerRecord r = CommitAttempt(Opened(), FenceFor(1), 17).value();
  EXPECT_EQ(r.owner, kB);
  EXPECT_EQ(r.previous, kA);
  EXPECT_EQ(r.epoch, 2u);
  EXPECT_EQ(r.start_index, 17);
  EXPECT_FALSE(r.open.has_value());
  EXPECT_FALSE(r.resumed);
  EXPECT_EQ(DecisionOf(r, FenceFor(1)), Decision::kCommitted);
  r = ResumeOwner(r, FenceFor(1), 2).value();
  EXPECT_EQ(DecisionOf(r, FenceFor(1)), Decision::kResumed);
}

TEST(Transitions, LateCommitOfAClosedAttemptIsRefused) {
  OwnerRecord closed = CloseAttempt(Opened(), "m1", 1).value();
  EXPECT_THAT(CommitAttempt(closed, FenceFor(1), 5), HasReason("UNKNOWN_ATTEMPT"));
  EXPECT_EQ(DecisionOf(closed, FenceFor(1)), Decision::kAborted);
  OpenAttempt second{.migration_id = "m1", .attempt = 2, .destination = kB, .leader_term = 7};
  OwnerRecord reopened = OpenNewAttempt(closed, second, 1).value();
  EXPECT_THAT(CommitAttempt(reopened, FenceFor(1), 5), HasReason("UNKNOWN_ATTEMPT"));
  EXPECT_OK(CommitAttempt(reopened, FenceFor(2), 5));
}

TEST(Transitions, CancelFlagMakesTheOpenAttemptFail) {
  EXPECT_THAT(CommitAttempt(Cancel(Opened()), FenceFor(1), 5), HasReason("CANCELLED_BY_CALLER"));
  OpenAttempt open{.migration_id = "m2", .attempt = 1, .destination = kB};
  EXPECT_THAT(OpenNewAttempt(Cancel(ImplicitOwner(kRequest, kA)), open, 1), HasReason("CANCELLED_BY_CALLER"));
}

TEST(Transitions, RollBackAndResumedExcludeEachOther) {
  OwnerRecord committed = CommitAttempt(Opened(), FenceFor(1), 5).value();
  OwnerRecord back = RollBack(committed, FenceFor(1)).value();
  EXPECT_EQ(back.owner, kA);
  EXPECT_EQ(back.epoch, 3u);
  EXPECT_EQ(back.start_index, 5);
  EXPECT_EQ(DecisionOf(back, FenceFor(1)), Decision::kRolledBack);
  EXPECT_THAT(ResumeOwner(back, FenceFor(1), 2), HasReason("NOT_OWNER"));
  EXPECT_THAT(CommitAttempt(back, FenceFor(1), 5), HasReason("UNKNOWN_ATTEMPT"));
  EXPECT_THAT(RollBack(back, FenceFor(1)), StatusIs(absl::StatusCode::kAborted));
  OwnerRecord resumed = ResumeOwner(committed, FenceFor(1), 2).value();
  EXPECT_THAT(RollBack(resumed, FenceFor(1)), HasReason("ALREADY_COMMITTED"));
  EXPECT_THAT(CloseAttempt(resumed, "m1", 1), HasReason("ALREADY_COMMITTED"));
}

TEST(Transitions, EveryPartOfTheFenceIsCompared) {
  Fence f = FenceFor(1);
  f.epoch = 2;
  EXPECT_THAT(CommitAttempt(Opened(), f, 5), HasReason("EPOCH_CONFLICT"));
  f = FenceFor(1);
  f.source_boot_id = "other";
  EXPECT_THAT(CommitAttempt(Opened(), f, 5), HasReason("STALE_FENCE"));
  f = FenceFor(1);
  f.destination_boot_id = "other";
  EXPECT_THAT(CommitAttempt(Opened(), f, 5), HasReason("STALE_FENCE"));
  f = FenceFor(1);
  f.leader_term = 6;
  EXPECT_THAT(CommitAttempt(Opened(), f, 5), HasReason("STALE_FENCE"));
  f = FenceFor(1);
  f.migration_id = "m9";
  EXPECT_THAT(CommitAttempt(Opened(), f, 5), HasReason("UNKNOWN_ATTEMPT"));
}

TEST(Transitions, OneOpenAttemptAndTheRightEpoch) {
  OpenAttempt other{.migration_id = "m2", .attempt = 1, .destination = kC};
  EXPECT_THAT(OpenNewAttempt(Opened(), other, 1), HasReason("ALREADY_MIGRATING"));
  EXPECT_THAT(OpenNewAttempt(CommitAttempt(Opened(), FenceFor(1), 5).value(), other, 2), HasReason("ALREADY_MIGRATING"));
  EXPECT_THAT(OpenNewAttempt(ImplicitOwner(kRequest, kA), other, 4),
              AllOf(HasReason("EPOCH_CONFLICT"), StatusIs(absl::StatusCode::kAborted, HasSubstr("at epoch 1, expected 4"))));
}

TEST(Transitions, RecoverClosesTheAttemptAndFencesTheLastCommit) {
  OwnerRecord committed = CommitAttempt(Opened(), FenceFor(1), 5).value();
  EXPECT_THAT(RecoverTo(committed, 1, kC, 9), HasReason("EPOCH_CONFLICT"));
  OwnerRecord recovered = RecoverTo(committed, 2, kC, 9).value();
  EXPECT_EQ(recovered.owner, kC);
  EXPECT_EQ(recovered.epoch, 3u);
  EXPECT_EQ(recovered.start_index, 9);
  EXPECT_THAT(ResumeOwner(recovered, FenceFor(1), 2), HasReason("NOT_OWNER"));
  EXPECT_THAT(RollBack(recovered, FenceFor(1)), HasReason("UNKNOWN_ATTEMPT"));
  OwnerRecord from_open = RecoverTo(Opened(), 1, kC, 3).value();
  EXPECT_THAT(CommitAttempt(from_open, FenceFor(1), 5), HasReason("UNKNOWN_ATTEMPT"));
}

TEST(Transitions, BootOfARequest) {
  EXPECT_EQ(BootOfRequest("bootA-0001").value(), "bootA");
  for (const char* bad : {"", "nodash", "-x", "x-"}) EXPECT_THAT(BootOfRequest(bad), HasReason("BAD_ARGUMENT")) << bad;
}

TEST(States, OnlyGrowWithinAnAttempt) {
  for (int a = 1; a <= 14; ++a) {
    for (int b = 1; b <= 14; ++b) {
      auto from = static_cast<MigrationState>(a), to = static_cast<MigrationState>(b);
      if (b < a) {
        EXPECT_FALSE(MayFollow(from, to)) << Name(from) << " " << Name(to);
      }
      if (IsTerminal(from)) {
        EXPECT_FALSE(MayFollow(from, to));
      }
    }
  }
  EXPECT_FALSE(MayFollow(MigrationState::kCommitted, MigrationState::kAborted));
  EXPECT_FALSE(MayFollow(MigrationState::kCommitted, MigrationState::kStayed));
  EXPECT_FALSE(MayFollow(MigrationState::kPrepared, MigrationState::kSucceeded));
  EXPECT_FALSE(MayFollow(MigrationState::kPrepared, MigrationState::kResumed));
  EXPECT_TRUE(MayFollow(MigrationState::kCommitted, MigrationState::kFailed));
  EXPECT_TRUE(MayFollow(1, MigrationState::kPaused, 2, MigrationState::kPlanned));
  EXPECT_FALSE(MayFollow(1, MigrationState::kCommitted, 2, MigrationState::kPlanned));
  EXPECT_FALSE(MayFollow(2, MigrationState::kPlanned, 1, MigrationState::kPaused));
}

}  // namespace
}  // namespace riskkv

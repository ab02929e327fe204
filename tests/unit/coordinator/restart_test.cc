// A coordinator ends before the decision, at any state, and another one goes on from its records.
#include "tests/unit/coordinator/restart_fixture.h"

namespace riskkv::coordinator {
namespace {

using ::riskkv::testing::HasReason;

TEST_F(RestartTest, AnOpenAttemptIsRejoinedAndMayCommitUnderTheNewTerm) {
  UpToFinalAndWait();
  Restart();
  EXPECT_TRUE(Eventually([&] { return api_.moves().size() == 2; }));
  EXPECT_EQ(api_.moves()[1].fence, api_.moves()[0].fence);  // the same attempt: the worker only hands its events out again
  EXPECT_EQ(store_->leader_term(), 2u);
  EXPECT_EQ(fence_.leader_term, 1u);
  EXPECT_EQ(manager_->Resolve(fence_, false, "source")->decision, Decision::kOpen);
  EXPECT_EQ(PreparedOnceAsked().decision, Decision::kCommitted);
  EXPECT_EQ(manager_->Resumed(fence_, 2)->decision, Decision::kResumed);
  JobRecord record = Await("m1");
  EXPECT_EQ(record.state, MigrationState::kSucceeded);
  EXPECT_EQ(record.attempts.size(), 1u);
  EXPECT_EQ(Rounds(record), 2);
  for (std::size_t i = 1; i < record.events.size(); ++i) EXPECT_GT(record.events[i].seq, record.events[i - 1].seq);
  EXPECT_FALSE(api_.WasTold("A", Decision::kAborted));
}

TEST_F(RestartTest, ASourceThatNeverAnswersClosesTheAttemptWithItsLease) {
  UpToFinalAndWait();
  api_.on_query = [](const Fence&) -> absl::StatusOr<AttemptInfo> {
    return MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE", "away");
  };
  Restart();
  Pass(absl::Seconds(12), {"B", "C"});
  EXPECT_EQ(Await("m1").state, MigrationState::kFailed);
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kAborted);
  EXPECT_EQ(Owner().owner.id, "A");
}

TEST_F(RestartTest, ASourceThatIsThereAndNeverAnswersClosesTheAttemptAtTheDeadline) {
  UpToFinalAndWait();
  api_.on_query = [](const Fence&) -> absl::StatusOr<AttemptInfo> {
    return MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE", "away");
  };
  Restart();
  Pass(absl::Seconds(31), {"A", "B", "C"});
  EXPECT_EQ(Await("m1").state, MigrationState::kAborted);
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kAborted);
}

TEST_F(RestartTest, AnAttemptTheSourceHadNotBegunIsClosedAndTheJobBeginsAgain) {
  UpToFinalAndWait();
  StopManager();
  const Fence first = fence_;
  api_.on_query = [](const Fence&) -> absl::StatusOr<AttemptInfo> { return AttemptInfo{.known = false}; };
  api_.on_move = [this](ScriptedStream& s, const StartMoveArgs& a) { GoodMove(s, a); };
  Restart();
  JobRecord record = Await("m1");
  EXPECT_EQ(record.state, MigrationState::kSucceeded);
  ASSERT_EQ(record.attempts.size(), 2u);
  EXPECT_EQ(record.attempts[0].decision, Decision::kAborted);
  EXPECT_THAT(record.attempts[0].error, HasReason("NOT_LEADER"));
  EXPECT_EQ(record.attempts[1].mode, record.attempts[0].mode);
  EXPECT_EQ(record.attempts[1].leader_term, 2u);
  EXPECT_EQ(manager_->Prepared(first, 22)->decision, Decision::kAborted);
  EXPECT_TRUE(Eventually([&] { return api_.WasTold("A", Decision::kAborted) && api_.WasTold("B", Decision::kAborted); }));
}

TEST_F(RestartTest, WhatTheSourceSaysOfTheAttemptDecidesTheFallback) {
  UpToFinalAndWait();
  api_.on_query = [](const Fence&) -> absl::StatusOr<AttemptInfo> {
    return AttemptInfo{.known = true,
                       .state = MigrationState::kPrecopy,
                       .error = MakeError(absl::StatusCode::kAborted, "STAGES_EXCEEDED", "does not converge")};
  };
  Restart();
  JobRecord record = Await("m1");
  EXPECT_EQ(record.state, MigrationState::kStayed);
  EXPECT_THAT(record.outcome->error, HasReason("STAGES_EXCEEDED"));
  EXPECT_FALSE(Owner().open.has_value());
}

TEST_F(RestartTest, AJobWithoutAnAttemptGoesOnFromItsPlan) {
  for (MigrationState state : {MigrationState::kAccepted, MigrationState::kPlanned}) {
    SCOPED_TRACE(std::string(Name(state)));
    JobRecord record = Early(state);
    if (state == MigrationState::kPlanned) {  // the first one has moved it to B
      record.spec.migration_id = "m2";
      record.spec.expected_epoch = 2;
      record.spec.destination = "A";
      std::swap(record.source, record.destination);
    }
    StartWith(record);
    JobRecord ended = Await(record.spec.migration_id);
    EXPECT_EQ(ended.state, MigrationState::kSucceeded);
    EXPECT_EQ(ended.outcome->owner, record.spec.destination);
  }
}

TEST_F(RestartTest, AJobWaitsUntilItsWorkersHaveRegistered) {
  StartWith(Early(MigrationState::kAccepted), {});
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_FALSE(IsTerminal(manager_->Find("m1").value()->state()));
  Register("A");
  Register("B");
  EXPECT_EQ(Await("m1").state, MigrationState::kSucceeded);
}

TEST_F(RestartTest, AWorkerThatDoesNotComeBackEndsTheJob) {
  StartWith(Early(MigrationState::kAccepted), {"A"});
  Pass(absl::Seconds(12), {"A"});
  JobRecord record = Await("m1");
  EXPECT_EQ(record.state, MigrationState::kFailed);
  EXPECT_THAT(record.outcome->error, HasReason("UNKNOWN_WORKER"));
}

TEST_F(RestartTest, ACancelledJobStaysCancelled) {
  JobRecord record = Early(MigrationState::kPlanned);
  record.cancelled = true;
  StartWith(record);
  JobRecord ended = Await("m1");
  EXPECT_EQ(ended.state, MigrationState::kAborted);
  EXPECT_THAT(ended.outcome->error, HasReason("CANCELLED_BY_CALLER"));
  EXPECT_TRUE(api_.moves().empty());
}

TEST_F(RestartTest, CancelIsInTheRecordBeforeItIsAnswered) {
  UpToFinalAndWait();
  ASSERT_OK(manager_->CancelJob("m1"));
  EXPECT_TRUE(store_->GetJob("m1")->cancelled);
  EXPECT_FALSE(Owner().open.has_value());
}

TEST_F(RestartTest, TheTimeAJobHadUsedCounts) {
  StartWith(Early(MigrationState::kAccepted, /*elapsed_ms=*/29500), {});
  EXPECT_FALSE(IsTerminal(manager_->Find("m1").value()->state()));
  clock_.Advance(absl::Seconds(1));
  JobRecord record = Await("m1");
  EXPECT_EQ(record.state, MigrationState::kAborted);
  EXPECT_THAT(record.outcome->error, HasReason("DEADLINE_TOTAL"));
}

TEST_F(RestartTest, AnOpenAttemptIsClosedAtTheDeadlineOfItsJob) {
  UpToFinalAndWait();
  Restart();
  EXPECT_TRUE(Eventually([&] { return api_.moves().size() == 2; }));
  Pass(absl::Seconds(31), {"A", "B", "C"});
  JobRecord record = Await("m1");
  EXPECT_EQ(record.state, MigrationState::kAborted);
  EXPECT_THAT(record.outcome->error, HasReason("DEADLINE_TOTAL"));
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kAborted);
}

// The crash came between the durable close and what was to follow.
TEST_F(RestartTest, AClosedAttemptIsToldAgainAndTheJobGoesOn) {
  UpToFinalAndWait();
  StopManager();
  JobRecord record = store_->GetJob("m1").value();
  OwnerRecord owner = Owner();
  owner.open.reset();
  record.attempts[0].decision = Decision::kAborted;
  record.attempts[0].error = MakeError(absl::StatusCode::kAborted, "CHECKSUM", "a frame");
  ASSERT_OK(store_->Commit({.owner = owner, .job = record}));
  Restart();
  JobRecord ended = Await("m1");
  EXPECT_EQ(ended.state, MigrationState::kStayed);  // FULL's fallback
  EXPECT_THAT(ended.outcome->error, HasReason("CHECKSUM"));
  EXPECT_TRUE(Eventually([&] { return api_.WasTold("A", Decision::kAborted) && api_.WasTold("B", Decision::kAborted); }));
}

TEST_F(RestartTest, AnAcceptanceWhoseAnswerWasLostIsCarriedOut) {
  flaky_->lose_answer = true;
  JobRecord record = RunJob(Spec());
  EXPECT_EQ(record.state, MigrationState::kSucceeded);
  EXPECT_EQ(store_->GetJob("m1")->state, MigrationState::kSucceeded);
}

}  // namespace
}  // namespace riskkv::coordinator

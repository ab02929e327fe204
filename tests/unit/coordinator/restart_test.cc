// A coordinator ends before the decision, at any state, and another one goes on from its records.
#include "tests/unit/coordinator/manager_fixture.h"

namespace riskkv::coordinator {
namespace {

using ::riskkv::testing::HasReason;

class RestartTest : public ManagerTest {
 protected:
  // What a coordinator leaves that ended with the job in `state`, before its first attempt.
  JobRecord Early(MigrationState state, double elapsed_ms = 5) {
    JobRecord record;
    record.spec = Spec();
    record.body_digest = BodyDigest(record.spec);
    record.state = state;
    record.source = Worker("A", "bootA").name;
    record.destination = Worker("B", "bootB").name;
    record.accepted_at = record.updated_at = clock_.Now();
    record.events = {{.seq = 1, .state = state, .attempt = 1, .epoch = 1, .elapsed_ms = elapsed_ms}};
    return record;
  }
  void StartWith(const JobRecord& record, const std::vector<std::string>& registered = {"A", "B", "C"}) {
    StopManager();
    ASSERT_OK(store_->Commit({.job = record}));
    OpenStore();
    registry_ = std::make_unique<WorkerRegistry>(&clock_, absl::Seconds(10));
    for (const std::string& id : registered) Register(id);
    StartManager();
  }
  int Rounds(const JobRecord& job) {
    int rounds = 0;
    for (const JobEvent& event : job.events) rounds += std::holds_alternative<RoundDone>(event.detail);
    return rounds;
  }

};

TEST_F(RestartTest, AnOpenAttemptIsRejoinedAndMayCommitUnderTheNewTerm) {
  UpToFinalAndWait();
  Restart();
  EXPECT_TRUE(Eventually([&] { return api_.moves().size() == 2; }));
  EXPECT_EQ(api_.moves()[1].fence, api_.moves()[0].fence);  // the same attempt: the worker only hands its events out again
  EXPECT_EQ(store_->leader_term(), 2u);
  EXPECT_EQ(fence_.leader_term, 1u);
  EXPECT_EQ(manager_->Resolve(fence_, false, "source")->decision, Decision::kOpen);
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kCommitted);
  EXPECT_EQ(manager_->Resumed(fence_, 2)->decision, Decision::kResumed);
  JobRecord record = Await("m1");
  EXPECT_EQ(record.state, MigrationState::kSucceeded);
  EXPECT_EQ(record.attempts.size(), 1u);
  EXPECT_EQ(Rounds(record), 2);
  for (std::size_t i = 1; i < record.events.size(); ++i) EXPECT_GT(record.events[i].seq, record.events[i - 1].seq);
  EXPECT_FALSE(api_.WasTold("A", Decision::kAborted));
}

// The destination asks again and again; the first answer may come before the source has been joined.
TEST_F(RestartTest, PreparedIsAnsweredBeforeTheSourceIsReached) {
  UpToFinalAndWait();
  api_.on_query = [](const Fence&) -> absl::StatusOr<AttemptInfo> {
    return MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE", "away");
  };
  Restart();
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kCommitted);
  EXPECT_EQ(manager_->Resumed(fence_, 2)->decision, Decision::kResumed);
  EXPECT_EQ(Await("m1").state, MigrationState::kSucceeded);
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

// --- a store that went back in time ---

TEST_F(RestartTest, NoAttemptOpensBeforeTheOwnerHasConfirmedTheEpoch) {
  api_.on_get = [](const WorkerName&, const std::string&) -> absl::StatusOr<RequestInfo> {
    return MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE", "away");
  };
  EXPECT_THAT(manager_->StartJob(Spec()), HasReason("PEER_UNREACHABLE"));
  api_.on_get = [](const WorkerName&, const std::string&) -> absl::StatusOr<RequestInfo> { return Request(0); };  // lower than recorded
  EXPECT_THAT(manager_->StartJob(Spec()), HasReason("EPOCH_CONFLICT"));
  EXPECT_TRUE(absl::IsNotFound(store_->GetOwner(kRequest).status()));
  EXPECT_TRUE(api_.reserves().empty());
}

TEST_F(RestartTest, AnotherWorkerWithAHigherEpochThanTheStoreWins) {
  api_.on_get = [](const WorkerName& worker, const std::string&) -> absl::StatusOr<RequestInfo> {
    if (worker.id == "B") return Request(4);
    RequestInfo gone = Request(1);
    gone.moved = true;
    return gone;
  };
  // The restored backup knows an attempt that was decided long ago.
  OwnerRecord old;
  old.request_id = kRequest;
  old.owner = Worker("A", "bootA").name;
  ASSERT_OK(store_->Commit({.owner = old}));
  EXPECT_THAT(manager_->StartJob(Spec()), HasReason("SAME_WORKER"));  // it asks for B, which has it
  EXPECT_EQ(Owner().owner.id, "B");
  EXPECT_EQ(Owner().epoch, 4u);
  JobSpec spec = Spec("m2");
  spec.expected_epoch = 4;
  spec.destination = "C";
  EXPECT_EQ(RunJob(spec).outcome->owner, "C");
  EXPECT_EQ(Owner().epoch, 5u);
}

// --- owner records ---

class OwnerPrunerTest : public RestartTest {
 protected:
  // As after a move that ended: the record, and for a while its job.
  void Moved(absl::Duration retention) {
    options_.retention = retention;
    api_.on_get = [this](const WorkerName&, const std::string& id) -> absl::StatusOr<RequestInfo> {
      if (ended_) return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_REQUEST", id);
      return Request(Owner().epoch);
    };
    Restart();
    ASSERT_EQ(RunJob(Spec()).state, MigrationState::kSucceeded);
    ASSERT_TRUE(Kept());
  }
  // Half a minute each, in which the housekeeping looks once.
  void Rounds(int n) {
    for (int i = 0; i < n; ++i) {
      Pass(absl::Seconds(31), alive_);
      absl::SleepFor(absl::Milliseconds(60));
    }
  }
  bool Kept() { return store_->GetOwner(kRequest).ok(); }
  bool GoesEventually() {
    return Eventually([&] {
      Rounds(1);
      return !Kept();
    });
  }
  std::vector<std::string> alive_ = {"A", "B", "C"};
  std::atomic<bool> ended_{false};  // no worker knows the request any more
};

TEST_F(OwnerPrunerTest, ARecordStaysWhileAJobRefersToIt) {
  Moved(absl::Hours(1));
  ended_ = true;
  Rounds(2);
  EXPECT_TRUE(Kept());
}

TEST_F(OwnerPrunerTest, ARecordGoesWhenItsRequestHasEndedAndItsJobIsGone) {
  Moved(absl::Seconds(60));
  EXPECT_TRUE(Eventually([&] {
    Rounds(1);
    return absl::IsNotFound(store_->GetJob("m1").status());
  }));
  Rounds(3);
  EXPECT_TRUE(Kept()) << "B still holds the request";
  ended_ = true;
  Rounds(1);
  EXPECT_TRUE(Kept()) << "its client may be about to recover it";
  EXPECT_TRUE(GoesEventually());
}

TEST_F(OwnerPrunerTest, ALostOwnersRecordStaysForItsClientToRecover) {
  Moved(absl::Seconds(120));
  alive_ = {"A", "C"};
  EXPECT_TRUE(Eventually([&] {
    Rounds(1);
    return absl::IsNotFound(store_->GetJob("m1").status());
  }));
  Rounds(1);
  EXPECT_TRUE(Kept());
  EXPECT_TRUE(GoesEventually());
}

}  // namespace
}  // namespace riskkv::coordinator

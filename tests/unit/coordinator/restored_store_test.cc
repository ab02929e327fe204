// The store goes back in time (a backup is put back): what the workers hold wins (protocol.md, 5).
#include "tests/unit/coordinator/restart_fixture.h"

namespace riskkv::coordinator {
namespace {

using ::riskkv::testing::HasReason;

class RestoredStoreTest : public RestartTest {};

// The store may be a backup from before the attempt's end, and its source may decode again.
TEST_F(RestoredStoreTest, PreparedIsNotAnsweredBeforeTheSourceHasSaidThatTheAttemptIsOpen) {
  UpToFinalAndWait();
  std::atomic<bool> away{true};
  api_.on_query = [&](const Fence&) -> absl::StatusOr<AttemptInfo> {
    if (away) return MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE", "away");
    return AttemptInfo{.known = true, .state = MigrationState::kFinal};
  };
  Restart();
  EXPECT_THAT(manager_->Prepared(fence_, 22), HasReason("NOT_READY"));
  EXPECT_EQ(manager_->Resolve(fence_, false, "destination")->decision, Decision::kOpen);
  EXPECT_TRUE(Owner().open.has_value());
  away = false;
  clock_.Advance(absl::Seconds(1));  // it is asked twice a second
  EXPECT_EQ(PreparedOnceAsked().decision, Decision::kCommitted);
  EXPECT_EQ(manager_->Resumed(fence_, 2)->decision, Decision::kResumed);
  EXPECT_EQ(Await("m1").state, MigrationState::kSucceeded);
}

TEST_F(RestoredStoreTest, AnAttemptThatAnOlderStoreCallsOpenAndItsSourceHasEndedNeverCommits) {
  UpToFinalAndWait();
  api_.on_query = [](const Fence&) -> absl::StatusOr<AttemptInfo> {
    return AttemptInfo{.known = true, .state = MigrationState::kAborted, .error = absl::AbortedError("closed")};
  };
  Restart();
  EXPECT_TRUE(Eventually([&] {
    auto reply = manager_->Prepared(fence_, 22);
    EXPECT_TRUE(!reply.ok() || reply->decision == Decision::kAborted);
    return reply.ok();
  }));
  EXPECT_EQ(Owner().epoch, 1u);
}

// The backup is older than the commit that the workers have been told.
TEST_F(RestoredStoreTest, ACommitThatAnOlderStoreHasForgottenIsWrittenAgain) {
  RestartOnAnOlderStore(MigrationState::kCommitted);
  EXPECT_TRUE(Eventually([&] { return Owner().epoch == 2; }));
  EXPECT_EQ(Owner().owner.id, "B");
  EXPECT_EQ(Owner().start_index, 22);
  EXPECT_FALSE(Owner().resumed);
  EXPECT_EQ(manager_->Resumed(fence_, 2)->decision, Decision::kResumed);
  EXPECT_EQ(Await("m1").state, MigrationState::kSucceeded);
}

TEST_F(RestoredStoreTest, ARequestThatResumedAfterTheBackupStaysWhereItIs) {
  RestartOnAnOlderStore(MigrationState::kResumed);
  EXPECT_EQ(Await("m1").state, MigrationState::kSucceeded);
  EXPECT_EQ(Owner().owner.id, "B");
  EXPECT_TRUE(Owner().resumed);
}

TEST_F(RestoredStoreTest, ARequestThatHasLeftTheDestinationSinceIsLeftToTheWorkerThatHoldsIt) {
  UpToFinalAndWait();
  StopManager();
  api_.on_get = [](const WorkerName& worker, const std::string& id) -> absl::StatusOr<RequestInfo> {
    if (worker.id == "C") return Request(3);
    return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_REQUEST", id);
  };
  api_.on_query = [](const Fence&) -> absl::StatusOr<AttemptInfo> {
    return AttemptInfo{.known = true, .state = MigrationState::kResumed};
  };
  Restart();
  EXPECT_EQ(Await("m1").state, MigrationState::kFailed);
  api_.on_move = [this](ScriptedStream& s, const StartMoveArgs& a) { GoodMove(s, a); };
  JobSpec next = Spec("m2");
  next.expected_epoch = 3;
  EXPECT_EQ(RunJob(next).outcome->epoch, 4u);  // from C, whose epoch was found
}

// The destination has resumed, ended and forgotten; rolling back would give the request to a source that has freed it.
TEST_F(RestoredStoreTest, ACommitThatAWorkerSaysHasResumedIsNotRolledBack) {
  UpToFinalAndWait();
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kCommitted);
  StopManager();
  api_.on_query = [](const Fence&) -> absl::StatusOr<AttemptInfo> {
    return AttemptInfo{.known = true, .state = MigrationState::kResumed};
  };
  api_.on_decide = [](const WorkerName&, const DecideArgs&) -> absl::StatusOr<bool> { return false; };
  Restart();
  EXPECT_EQ(Await("m1").state, MigrationState::kSucceeded);
  EXPECT_EQ(Owner().owner.id, "B");
  EXPECT_EQ(Owner().epoch, 2u);
}

TEST_F(RestoredStoreTest, NoAttemptOpensBeforeTheOwnerHasConfirmedTheEpoch) {
  api_.on_get = [](const WorkerName&, const std::string&) -> absl::StatusOr<RequestInfo> {
    return MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE", "away");
  };
  EXPECT_THAT(manager_->StartJob(Spec()), HasReason("PEER_UNREACHABLE"));
  api_.on_get = [](const WorkerName&, const std::string&) -> absl::StatusOr<RequestInfo> { return Request(0); };  // lower than recorded
  EXPECT_THAT(manager_->StartJob(Spec()), HasReason("EPOCH_CONFLICT"));
  EXPECT_TRUE(absl::IsNotFound(store_->GetOwner(kRequest).status()));
  EXPECT_TRUE(api_.reserves().empty());
}

TEST_F(RestoredStoreTest, AnotherWorkerWithAHigherEpochThanTheStoreWins) {
  api_.on_get = [](const WorkerName& worker, const std::string&) -> absl::StatusOr<RequestInfo> {
    if (worker.id == "B") {
      RequestInfo here = Request(4);
      here.start_index = 17;
      return here;
    }
    RequestInfo gone = Request(1);
    gone.moved = true;
    return gone;
  };
  // The restored backup knows an attempt that was decided long ago.
  OwnerRecord old;
  old.request_id = kRequest;
  old.owner = Worker("A", "bootA").name;
  old.last_committed = "m0";
  old.last_attempt = 1;
  old.rolled_back = true;
  ASSERT_OK(store_->Commit({.owner = old}));
  EXPECT_THAT(manager_->StartJob(Spec()), HasReason("SAME_WORKER"));  // it asks for B, which has it
  EXPECT_EQ(Owner().owner.id, "B");
  EXPECT_EQ(Owner().epoch, 4u);
  EXPECT_EQ(Owner().start_index, 17);
  EXPECT_TRUE(Owner().last_committed.empty());
  JobSpec spec = Spec("m2");
  spec.expected_epoch = 4;
  spec.destination = "C";
  EXPECT_EQ(RunJob(spec).outcome->owner, "C");
  EXPECT_EQ(Owner().epoch, 5u);
}

TEST_F(RestoredStoreTest, AHigherEpochOfTheOwnerItselfReplacesTheWholeRecord) {
  RequestInfo ahead = Request(5);
  ahead.start_index = 19;
  api_.SetRequest(ahead);
  OwnerRecord old;
  old.request_id = kRequest;
  old.owner = Worker("A", "bootA").name;
  old.epoch = 3;
  old.start_index = 8;
  old.last_committed = "m0";
  old.last_attempt = 2;
  old.rolled_back = true;
  old.previous = Worker("C", "bootC").name;
  ASSERT_OK(store_->Commit({.owner = old}));
  EXPECT_THAT(manager_->StartJob(Spec()), HasReason("EPOCH_CONFLICT"));  // it expects 1
  EXPECT_EQ(Owner().epoch, 5u);
  EXPECT_EQ(Owner().start_index, 19);
  EXPECT_TRUE(Owner().last_committed.empty());
  EXPECT_FALSE(Owner().rolled_back);
  EXPECT_TRUE(Owner().previous.boot_id.empty());
}

}  // namespace
}  // namespace riskkv::coordinator

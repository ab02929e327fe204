// Decisions, roll-back, doubt, restart, leases: who owns a request whatever fails.
#include "tests/unit/coordinator/manager_fixture.h"

namespace riskkv::coordinator {
namespace {

using ::riskkv::testing::HasReason;

class OwnershipTest : public ManagerTest {
 protected:
  // Commits and then hangs until `until_` says what the destination does next.
  void CommitAndHang() {
    api_.on_move = [this](ScriptedStream& stream, const StartMoveArgs& args) {
      fence_ = args.fence;
      UpToFinal(stream, args);
      reply_ = Ask([&] { return manager_->Prepared(args.fence, 22); });
      stream.AwaitCancel(absl::Seconds(20));
    };
  }
  std::shared_ptr<Job> Committed() {
    CommitAndHang();
    auto job = manager_->StartJob(Spec());
    EXPECT_OK(job);
    EXPECT_TRUE(Eventually([&] { return (*job)->state() == MigrationState::kCommitted; }));
    return *job;
  }
  DecisionReply reply_;
};

TEST_F(OwnershipTest, DestinationLostAfterCommitRollsBack) {
  auto job = Committed();
  EXPECT_EQ(Owner().owner.id, "B");
  Register("B", "bootB2");  // restarted
  JobRecord record = Await(*job);
  EXPECT_EQ(record.state, MigrationState::kFailed);
  EXPECT_THAT(record.outcome->error, HasReason("BOOT_ID_CHANGED"));
  EXPECT_EQ(record.outcome->owner, "A");
  EXPECT_EQ(record.outcome->epoch, 3u);
  EXPECT_EQ(Owner().owner.id, "A");
  EXPECT_EQ(Owner().epoch, 3u);
  EXPECT_TRUE(api_.WasTold("A", Decision::kRolledBack));
  // Resumed and prepared after the roll-back are refused.
  EXPECT_EQ(manager_->Resumed(fence_, 2)->decision, Decision::kRolledBack);
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kRolledBack);
  EXPECT_EQ(manager_->Resolve(fence_, true, "source")->decision, Decision::kRolledBack);
  // And the request can move again.
  api_.SetRequest(Request(3));
  api_.on_move = [this](ScriptedStream& s, const StartMoveArgs& a) { GoodMove(s, a); };
  JobSpec next = Spec("m2");
  next.expected_epoch = 3;
  next.destination = "C";
  EXPECT_EQ(RunJob(next).outcome->owner, "C");
}

TEST_F(OwnershipTest, DestinationWithoutALeaseAfterCommitRollsBack) {
  auto job = Committed();
  Pass(absl::Seconds(12), {"A"});
  EXPECT_THAT(Await(*job).outcome->error, HasReason("PEER_UNREACHABLE"));
  EXPECT_EQ(Owner().owner.id, "A");
}

TEST_F(OwnershipTest, ResumedExcludesTheRollBack) {
  auto job = Committed();
  EXPECT_EQ(manager_->Resumed(fence_, 2)->decision, Decision::kResumed);
  Register("B", "bootB2");
  EXPECT_EQ(Await(*job).state, MigrationState::kSucceeded);
  EXPECT_EQ(Owner().owner.id, "B");
  EXPECT_EQ(manager_->Resumed(fence_, 2)->decision, Decision::kResumed);  // doubled
  EXPECT_EQ(manager_->Resolve(fence_, true, "source")->decision, Decision::kResumed);
}

TEST_F(OwnershipTest, ADestinationThatHoldsNothingIsGivenUp) {
  api_.on_decide = [](const WorkerName& worker, const DecideArgs&) -> absl::StatusOr<bool> { return worker.id != "B"; };
  auto job = Committed();
  Pass(absl::Seconds(3), {"A", "B"});
  EXPECT_THAT(Await(*job).outcome->error, HasReason("UNKNOWN_ATTEMPT"));
  EXPECT_EQ(Owner().owner.id, "A");
}

// The source may come back, and must then learn whether to go on.
TEST_F(OwnershipTest, BothOutOfReachAfterCommitRollsBack) {
  auto job = Committed();
  Pass(absl::Seconds(12), {});
  EXPECT_EQ(Await(*job).state, MigrationState::kFailed);
  EXPECT_EQ(Owner().owner.id, "A");
  EXPECT_EQ(Owner().epoch, 3u);
  EXPECT_EQ(manager_->Resolve(fence_, false, "source")->decision, Decision::kRolledBack);
}

TEST_F(OwnershipTest, BothLostAfterCommitLeavesTheRecordAlone) {
  auto job = Committed();
  Register("A", "bootA2");
  Register("B", "bootB2");
  JobRecord record = Await(*job);
  EXPECT_EQ(record.state, MigrationState::kFailed);
  EXPECT_EQ(record.outcome->owner, "B");
  EXPECT_EQ(Owner().owner.id, "B");
  EXPECT_EQ(Owner().epoch, 2u);
}

TEST_F(OwnershipTest, DestinationLostBeforeTheDecisionClosesTheAttempt) {
  auto job = UpToFinalAndWait();
  Register("B", "bootB2");
  JobRecord record = Await(*job);
  EXPECT_EQ(record.state, MigrationState::kStayed);
  EXPECT_THAT(record.outcome->error, HasReason("BOOT_ID_CHANGED"));
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kAborted);
}

TEST_F(OwnershipTest, LeaseExpiryNeverChangesAnOwner) {
  RunJob(Spec());
  OwnerRecord before = Owner();
  Pass(absl::Minutes(5), {});
  EXPECT_EQ(Owner().revision, before.revision);
  EXPECT_EQ(manager_->Locate(kRequest)->owner.id, "B");
}

TEST_F(OwnershipTest, SourceLostBeforeTheDecisionFails) {
  auto job = UpToFinalAndWait();
  Pass(absl::Seconds(12), {"B"});
  JobRecord record = Await(*job);
  EXPECT_EQ(record.state, MigrationState::kFailed);
  EXPECT_EQ(record.outcome->owner, "A");
  EXPECT_FALSE(Owner().open.has_value());
}

TEST_F(OwnershipTest, ResolveAnswersOpenAndGiveUpCloses) {
  auto job = UpToFinalAndWait();
  EXPECT_EQ(manager_->Resolve(fence_, false, "source")->decision, Decision::kOpen);
  ASSERT_OK_AND_ASSIGN(DecisionReply closed, manager_->Resolve(fence_, true, "source"));
  EXPECT_EQ(closed.decision, Decision::kAborted);
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kAborted);
  EXPECT_EQ(manager_->Resolve(fence_, false, "destination")->decision, Decision::kAborted);
  Await(*job);
}

TEST_F(OwnershipTest, PreparedTwiceIsAnsweredTheSame) {
  auto job = Committed();
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kCommitted);
  EXPECT_EQ(Owner().epoch, 2u);
  manager_->Resumed(fence_, 2).value();
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kResumed);
  Await(*job);
}

TEST_F(OwnershipTest, PreparedByAnotherBootIsRefusedAndTheAttemptStaysOpen) {
  auto job = UpToFinalAndWait();
  Fence stale = fence_;
  stale.destination_boot_id = "bootB0";
  EXPECT_EQ(manager_->Prepared(stale, 22)->decision, Decision::kAborted);
  EXPECT_TRUE(Owner().open.has_value());
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kCommitted);
  manager_->Resumed(fence_, 2).value();
  EXPECT_EQ(Await(*job).state, MigrationState::kSucceeded);
}

TEST_F(OwnershipTest, ACancelledRequestNeverCommits) {
  auto job = UpToFinalAndWait();
  EXPECT_TRUE(manager_->CancelRequest(kRequest).value());
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kAborted);
  JobRecord record = Await(*job);
  EXPECT_EQ(record.state, MigrationState::kAborted);
  EXPECT_THAT(record.outcome->error, HasReason("CANCELLED_BY_CALLER"));
  EXPECT_TRUE(Owner().cancelled);
  EXPECT_FALSE(manager_->CancelRequest("bootA-77").value());
}

TEST_F(OwnershipTest, StoreAwayAtTheDecisionLeavesItOpenThenInDoubt) {
  auto job = UpToFinalAndWait();
  flaky_->down = true;
  EXPECT_THAT(manager_->Prepared(fence_, 22), HasReason("STORE_UNAVAILABLE"));  // no decision
  Pass(absl::Seconds(31), {"A", "B"});
  EXPECT_TRUE(Eventually([&] { return job->WaitEvents(1000, absl::ZeroDuration()).in_doubt; }));
  EXPECT_FALSE(IsTerminal(job->state()));
  EXPECT_THAT(manager_->Resolve(fence_, true, "source"), HasReason("STORE_UNAVAILABLE"));
  flaky_->down = false;
  JobRecord record = Await(*job);
  EXPECT_EQ(record.state, MigrationState::kAborted);
  EXPECT_FALSE(record.in_doubt);
  EXPECT_EQ(manager_->Resolve(fence_, true, "source")->decision, Decision::kAborted);
}

TEST_F(OwnershipTest, ACommitWhoseAnswerWasLostIsFoundAgain) {
  auto job = UpToFinalAndWait();
  flaky_->lose_answer = true;
  EXPECT_THAT(manager_->Prepared(fence_, 22), HasReason("STORE_UNAVAILABLE"));
  EXPECT_EQ(Owner().epoch, 2u);  // it was written
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kCommitted);
  EXPECT_EQ(Owner().epoch, 2u);
  manager_->Resumed(fence_, 2).value();
  JobRecord record = Await(*job);
  EXPECT_EQ(record.state, MigrationState::kSucceeded);
  EXPECT_EQ(store_->GetJob("m1")->outcome->epoch, 2u);
}

TEST_F(OwnershipTest, ACloseWhoseAnswerWasLostIsFoundAgain) {
  auto job = UpToFinalAndWait();
  flaky_->lose_answer = true;
  ASSERT_FALSE(manager_->CancelJob("m1").ok() && flaky_->lose_answer);
  EXPECT_EQ(Await(*job).state, MigrationState::kAborted);
  EXPECT_FALSE(Owner().open.has_value());
}

TEST_F(OwnershipTest, RestartAfterTheCommitCarriesOn) {
  Committed();
  Restart();
  EXPECT_TRUE(Eventually([&] { return api_.WasTold("A", Decision::kCommitted); }));
  EXPECT_EQ(manager_->Resolve(fence_, true, "source")->decision, Decision::kCommitted);
  EXPECT_EQ(manager_->Resumed(fence_, 2)->decision, Decision::kResumed);
  JobRecord record = Await("m1");
  EXPECT_EQ(record.state, MigrationState::kSucceeded);
  EXPECT_EQ(record.outcome->owner, "B");
  EXPECT_TRUE(Eventually([&] { return api_.WasTold("A", Decision::kResumed); }));
  for (std::size_t i = 1; i < record.events.size(); ++i) EXPECT_GT(record.events[i].seq, record.events[i - 1].seq);
}

TEST_F(OwnershipTest, RestartAfterTheCommitWithTheDestinationGoneRollsBack) {
  Committed();
  StopManager();
  OpenStore();
  registry_ = std::make_unique<WorkerRegistry>(&clock_, absl::Seconds(10));
  Register("A");
  StartManager();
  EXPECT_EQ(Owner().owner.id, "B");  // a worker not heard of yet is not gone yet
  Pass(absl::Seconds(12), {"A"});
  EXPECT_EQ(Await("m1").state, MigrationState::kFailed);
  EXPECT_EQ(Owner().owner.id, "A");
  EXPECT_EQ(Owner().epoch, 3u);
}

TEST_F(OwnershipTest, RestartAfterResumedSucceeds) {
  auto job = Committed();
  StopManager();
  // The crash came between the durable RESUMED and the terminal record.
  JobRecord record = store_->GetJob("m1").value();
  OwnerRecord owner = Owner();
  owner.resumed = true;
  record.attempts[0].decision = Decision::kResumed;
  record.state = MigrationState::kResumed;
  ASSERT_OK(store_->Commit({.owner = owner, .job = record}));
  Restart();
  EXPECT_EQ(Await("m1").state, MigrationState::kSucceeded);
  EXPECT_TRUE(Eventually([&] { return api_.WasTold("A", Decision::kResumed); }));
}

TEST_F(OwnershipTest, ABrokenStreamIsNotAnAbort) {
  std::atomic<int> queries{0};
  api_.on_query = [&](const Fence&) -> absl::StatusOr<AttemptInfo> {
    ++queries;
    return AttemptInfo{.known = true, .state = MigrationState::kPrecopy};
  };
  api_.on_move = [&](ScriptedStream& stream, const StartMoveArgs& args) {
    fence_ = args.fence;
    stream.Say(MigrationState::kPrecopy, RoundDone{.round = 1});
    stream.End(MakeError(absl::StatusCode::kUnavailable, "PEER_UNREACHABLE", "reset"));
  };
  ASSERT_OK_AND_ASSIGN(auto job, manager_->StartJob(Spec()));
  ASSERT_TRUE(Eventually([&] { return queries > 0; }));
  EXPECT_FALSE(IsTerminal(job->state()));
  EXPECT_EQ(manager_->Prepared(fence_, 22)->decision, Decision::kCommitted);
  EXPECT_EQ(manager_->Resumed(fence_, 2)->decision, Decision::kResumed);
  EXPECT_EQ(Await(*job).state, MigrationState::kSucceeded);
}

TEST_F(OwnershipTest, RecoverGivesALostRequestANewOwner) {
  RunJob(Spec());  // B owns it at epoch 2
  RecoverArgs args{.request_id = kRequest, .epoch = 2, .received = 30, .destination = "C"};
  EXPECT_THAT(manager_->Recover(args), HasReason("NOT_OWNER"));  // B holds its lease
  Pass(absl::Seconds(12), {"A", "C"});
  args.epoch = 1;
  EXPECT_THAT(manager_->Recover(args), HasReason("EPOCH_CONFLICT"));
  args.epoch = 2;
  ASSERT_OK_AND_ASSIGN(Location location, manager_->Recover(args));
  EXPECT_EQ(location.owner.id, "C");
  EXPECT_EQ(location.epoch, 3u);
  EXPECT_EQ(location.start_index, 30);
  ASSERT_EQ(api_.adopted().size(), 1u);
  EXPECT_EQ(api_.adopted()[0].epoch, 3u);
}

// The commit stands and nobody will ever resume or roll it back: each side must still be told something it can end with.
TEST_F(OwnershipTest, ACommitThatWasRecoveredFromEndsBothSides) {
  auto job = Committed();
  Register("A", "bootA2");
  Register("B", "bootB2");
  Await(*job);
  ASSERT_OK(manager_->Recover({.request_id = kRequest, .epoch = 2, .received = 30, .destination = "C"}));
  EXPECT_EQ(manager_->Resolve(fence_, false, "source")->decision, Decision::kResumed);
  EXPECT_EQ(manager_->Resolve(fence_, false, "destination")->decision, Decision::kRolledBack);
  EXPECT_EQ(manager_->Resumed(fence_, 2)->decision, Decision::kRolledBack);
  EXPECT_EQ(Owner().owner.id, "C");
}

TEST_F(OwnershipTest, AnOwnerThatHoldsNothingIsRecoveredFrom) {
  RunJob(Spec());  // B owns it at epoch 2, lives, and has lost it
  api_.ForgetRequest(kRequest);
  ASSERT_OK_AND_ASSIGN(Location location, manager_->Recover({.request_id = kRequest, .epoch = 2, .received = 30, .destination = "B"}));
  EXPECT_EQ(location.epoch, 3u);
}

// A record that named the dead boot would have to be recovered from again, while the new boot decodes.
TEST_F(OwnershipTest, ARecoveredRequestIsGivenToNoBootThatIsNoMore) {
  RunJob(Spec());
  Pass(absl::Seconds(12), {"A", "C"});
  api_.on_boot = [](const WorkerName& w) { return WorkerName{w.id, "boot" + w.id + "2", w.address}; };
  EXPECT_THAT(manager_->Recover({.request_id = kRequest, .epoch = 2, .received = 30, .destination = "C"}), HasReason("BOOT_ID_CHANGED"));
  EXPECT_EQ(Owner().epoch, 2u);
}

TEST_F(OwnershipTest, LocateByBootId) {
  EXPECT_EQ(manager_->Locate(kRequest)->owner.id, "A");
  EXPECT_EQ(manager_->Locate(kRequest)->epoch, 1u);
  EXPECT_THAT(manager_->Locate("bootZ-1"), HasReason("UNKNOWN_REQUEST"));
  EXPECT_THAT(manager_->Locate("nonsense"), HasReason("UNKNOWN_REQUEST"));
}

}  // namespace
}  // namespace riskkv::coordinator

// Accepting, running, falling back, cancelling.
#include "tests/unit/coordinator/manager_fixture.h"

namespace riskkv::coordinator {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(ManagerTest, HappyPathEventsInOrder) {
  JobRecord job = RunJob(Spec());
  EXPECT_THAT(States(job), ElementsAre("ACCEPTED", "PLANNED", "RESERVED", "PRECOPY", "PRECOPY", "PAUSED", "FINAL", "PREPARED",
                                       "COMMITTED", "RESUMED", "SUCCEEDED"));
  for (std::size_t i = 0; i < job.events.size(); ++i) EXPECT_EQ(job.events[i].seq, i + 1);
  ASSERT_TRUE(job.outcome.has_value());
  EXPECT_EQ(job.outcome->owner, "B");
  EXPECT_EQ(job.outcome->epoch, 2u);
  EXPECT_EQ(job.outcome->start_index, 22);
  EXPECT_EQ(job.outcome->mode, Mode::kFull);
  EXPECT_EQ(job.outcome->stats.bytes_sent, 100);
  EXPECT_GT(job.outcome->predicted_ms, 0);
  EXPECT_EQ(Owner().owner.id, "B");
  EXPECT_TRUE(Owner().resumed);
  EXPECT_TRUE(api_.WasTold("A", Decision::kCommitted));
  EXPECT_TRUE(api_.WasTold("A", Decision::kResumed));
  EXPECT_EQ(api_.reserves()[0].n_kv, 1019);
  EXPECT_EQ(manager_->Locate(kRequest)->owner.id, "B");
  // Kept in the store as it was seen.
  EXPECT_EQ(store_->GetJob("m1")->events.size(), job.events.size());
}

TEST_F(ManagerTest, WhatTheDestinationOvertookIsStillTold) {
  std::atomic<bool> told{false};
  api_.on_move = [&](ScriptedStream& stream, const StartMoveArgs& args) {
    stream.Say(MigrationState::kPrecopy, RoundDone{.round = 1});
    DecisionReply decision = Ask([&] { return manager_->Prepared(args.fence, 22); });
    stream.Say(MigrationState::kPaused, PausedAt{.n_tokens = 1022});
    auto job = manager_->Find(args.fence.migration_id);
    told = Eventually([&] { return std::holds_alternative<PausedAt>((*job)->Snapshot().events.back().detail) || stopping_; });
    Ask([&] { return manager_->Resumed(args.fence, decision.epoch); });
    stream.End(absl::OkStatus());
  };
  JobRecord job = RunJob(Spec());
  EXPECT_TRUE(told);
  EXPECT_EQ(job.state, MigrationState::kSucceeded);
  for (std::size_t i = 1; i < job.events.size(); ++i) EXPECT_GE(job.events[i].state, job.events[i - 1].state);
}

TEST_F(ManagerTest, SameIdTwiceIsOneMove) {
  JobRecord first = RunJob(Spec());
  JobSpec retry = Spec();
  retry.deadline_ms = 77;  // not part of the body
  ASSERT_OK_AND_ASSIGN(auto job, manager_->StartJob(retry));
  EXPECT_EQ(job->Snapshot().events.size(), first.events.size());
  EXPECT_EQ(api_.moves().size(), 1u);
}

TEST_F(ManagerTest, SameIdAtOnceIsOneMove) {
  std::vector<std::thread> threads;
  std::atomic<int> ok{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { ok += manager_->StartJob(Spec()).ok(); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(ok, 8);
  EXPECT_EQ(Await("m1").state, MigrationState::kSucceeded);
  EXPECT_EQ(api_.moves().size(), 1u);
}

TEST_F(ManagerTest, OtherBodyIsRefused) {
  RunJob(Spec());
  JobSpec other = Spec();
  other.destination = "C";
  EXPECT_THAT(manager_->StartJob(other),
              AllOf(StatusIs(absl::StatusCode::kAlreadyExists), HasReason("ID_REUSED_WITH_DIFFERENT_BODY")));
}

TEST_F(ManagerTest, ALateRetryCannotMoveTheRequestAgain) {
  RunJob(Spec());
  JobSpec late = Spec("m2");  // still expects epoch 1
  late.destination = "C";
  EXPECT_THAT(manager_->StartJob(late),
              AllOf(HasReason("EPOCH_CONFLICT"), StatusIs(absl::StatusCode::kAborted, HasSubstr("at epoch 2, expected 1"))));
  late.expected_epoch = 2;
  EXPECT_EQ(RunJob(late).outcome->owner, "C");
  EXPECT_EQ(Owner().epoch, 3u);
}

TEST_F(ManagerTest, RefusalsAreTyped) {
  auto refused = [&](auto change) {
    JobSpec spec = Spec("x");
    change(spec);
    return manager_->StartJob(spec);
  };
  EXPECT_THAT(refused([](JobSpec& s) { s.migration_id.clear(); }), HasReason("BAD_ARGUMENT"));
  EXPECT_THAT(refused([](JobSpec& s) { s.expected_epoch = 0; }), HasReason("BAD_ARGUMENT"));
  EXPECT_THAT(refused([](JobSpec& s) { s.mode = static_cast<Mode>(55); }), HasReason("BAD_ARGUMENT"));
  EXPECT_THAT(refused([](JobSpec& s) { s.mode = Mode::kRisk; }),
              AllOf(HasReason("LOSSY_NOT_ALLOWED"), StatusIs(absl::StatusCode::kInvalidArgument)));
  EXPECT_THAT(refused([](JobSpec& s) { s.request_id = "nobody-1"; }),
              AllOf(HasReason("UNKNOWN_REQUEST"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("nobody-1"))));
  EXPECT_THAT(refused([](JobSpec& s) { s.request_id = "bootA-99"; }), HasReason("UNKNOWN_REQUEST"));
  EXPECT_THAT(refused([](JobSpec& s) { s.destination = "Z"; }),
              AllOf(HasReason("UNKNOWN_WORKER"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'Z'"))));
  EXPECT_THAT(refused([](JobSpec& s) { s.destination = "A"; }), HasReason("SAME_WORKER"));
  EXPECT_THAT(refused([](JobSpec& s) { s.source = "C"; }), HasReason("NOT_OWNER"));
  EXPECT_THAT(refused([](JobSpec& s) { s.mode = Mode::kRisk, s.allow_lossy = true, s.predictor_set = "nope"; }),
              HasReason("PREDICTOR_MISSING"));
  WorkerInfo other = Worker("C", "bootC");
  other.fingerprint.layout.n_layer = 24;
  ASSERT_OK(registry_->Register(other));
  EXPECT_THAT(refused([](JobSpec& s) { s.destination = "C"; }),
              AllOf(HasReason("MODEL_MISMATCH"), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("n_layer"))));
  Pass(absl::Seconds(11), {"A"});
  EXPECT_THAT(refused([](JobSpec&) {}), HasReason("PEER_UNREACHABLE"));
  EXPECT_THAT(manager_->Find("x"), HasReason("UNKNOWN_MIGRATION"));
  EXPECT_FALSE(store_->GetOwner(kRequest).ok());
}

TEST_F(ManagerTest, AFinishedRequestIsRefused) {
  RequestInfo info = Request(1);
  info.finished = true;
  api_.SetRequest(info);
  EXPECT_THAT(manager_->StartJob(Spec()), HasReason("REQUEST_FINISHED"));
}

TEST_F(ManagerTest, AWorkerAheadOfTheStoreWins) {
  api_.SetRequest(Request(5));
  JobSpec spec = Spec();
  EXPECT_THAT(manager_->StartJob(spec), HasReason("EPOCH_CONFLICT"));
  spec.expected_epoch = 5;
  EXPECT_EQ(RunJob(spec).outcome->epoch, 6u);
}

TEST_F(ManagerTest, OneMigrationARequest) {
  std::atomic<bool> go{false};
  api_.on_move = [&](ScriptedStream& stream, const StartMoveArgs& args) {
    while (!go && !stopping_) absl::SleepFor(absl::Milliseconds(1));
    GoodMove(stream, args);
  };
  ASSERT_OK_AND_ASSIGN(auto job, manager_->StartJob(Spec()));
  EXPECT_THAT(manager_->StartJob(Spec("m2")), HasReason("ALREADY_MIGRATING"));
  go = true;
  EXPECT_EQ(Await(*job).state, MigrationState::kSucceeded);
}

TEST_F(ManagerTest, ReservationRefusedNamesTheReasonAndTheSourceGoesOn) {
  api_.on_reserve = [](const ReserveArgs&) {
    return MakeError(absl::StatusCode::kResourceExhausted, "NO_BLOCKS", "12 cells free, 1500 wanted");
  };
  JobRecord job = RunJob(Spec());
  EXPECT_EQ(job.state, MigrationState::kStayed);
  EXPECT_THAT(job.outcome->error, AllOf(HasReason("NO_BLOCKS"), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("12 cells"))));
  EXPECT_EQ(GetDetail(job.outcome->error)->side, "destination");
  EXPECT_EQ(job.outcome->owner, "A");
  EXPECT_EQ(job.outcome->epoch, 1u);
  EXPECT_TRUE(api_.moves().empty());
  EXPECT_FALSE(Owner().open.has_value());
  EXPECT_TRUE(Eventually([&] { return api_.WasTold("B", Decision::kAborted) && api_.WasTold("A", Decision::kAborted); }));
  // The next one goes through.
  api_.on_reserve = [](const ReserveArgs&) { return absl::OkStatus(); };
  EXPECT_EQ(RunJob(Spec("m2")).state, MigrationState::kSucceeded);
}

TEST_F(ManagerTest, VerifyGateFallsBackToFull) {
  for (const char* id : {"A", "B"}) GiveSet(id, Set());
  api_.on_move = [&](ScriptedStream& stream, const StartMoveArgs& args) {
    if (args.mode != Mode::kRisk) return GoodMove(stream, args);
    stream.Say(MigrationState::kRebuilt, MakeError(absl::StatusCode::kDataLoss, "VERIFY_GATE", "layer 3 is off"));
    stream.End(absl::OkStatus());
  };
  JobSpec spec = Spec();
  spec.mode = Mode::kRisk;
  spec.allow_lossy = true;
  JobRecord job = RunJob(spec);
  EXPECT_EQ(job.state, MigrationState::kSucceeded);
  EXPECT_EQ(job.outcome->mode, Mode::kFull);
  ASSERT_EQ(job.attempts.size(), 2u);
  EXPECT_EQ(job.attempts[0].profile, "large");  // the gated one that omits most
  EXPECT_EQ(job.attempts[0].decision, Decision::kAborted);
  EXPECT_EQ(job.attempts[1].attempt, 2u);
  int fallbacks = 0;
  for (const JobEvent& event : job.events) {
    if (const auto* fallback = std::get_if<Fallback>(&event.detail)) {
      ++fallbacks;
      EXPECT_EQ(fallback->from, Mode::kRisk);
      EXPECT_EQ(fallback->to, Mode::kFull);
      EXPECT_THAT(fallback->why, HasReason("VERIFY_GATE"));
      EXPECT_EQ(event.attempt, 2u);
    }
  }
  EXPECT_EQ(fallbacks, 1);
  EXPECT_EQ(store_->Counters(kSetMovesPrefix).value().size(), 0u);  // nothing lossy succeeded
}

TEST_F(ManagerTest, FailMeansNoFallback) {
  for (const char* id : {"A", "B"}) GiveSet(id, Set());
  api_.on_move = [&](ScriptedStream& stream, const StartMoveArgs&) {
    stream.Say(MigrationState::kRebuilt, MakeError(absl::StatusCode::kDataLoss, "VERIFY_GATE", "off"));
    stream.End(absl::OkStatus());
  };
  JobSpec spec = Spec();
  spec.mode = Mode::kRisk;
  spec.allow_lossy = true;
  spec.on_failure = OnFailure::kFail;
  JobRecord job = RunJob(spec);
  EXPECT_EQ(job.state, MigrationState::kFailed);
  EXPECT_THAT(job.outcome->error, HasReason("VERIFY_GATE"));
  EXPECT_EQ(job.outcome->owner, "A");
  EXPECT_EQ(api_.moves().size(), 1u);
}

TEST_F(ManagerTest, ReplayAfterFullWhenAllowed) {
  api_.on_move = [&](ScriptedStream& stream, const StartMoveArgs& args) {
    if (args.mode == Mode::kReplay) return GoodMove(stream, args);
    stream.Say(MigrationState::kPrecopy, MakeError(absl::StatusCode::kAborted, "STAGES_EXCEEDED", "8 rounds"));
    stream.End(absl::OkStatus());
  };
  JobSpec spec = Spec();
  spec.on_failure = OnFailure::kReplay;
  JobRecord job = RunJob(spec);
  EXPECT_EQ(job.state, MigrationState::kSucceeded);
  EXPECT_EQ(job.outcome->mode, Mode::kReplay);
}

TEST_F(ManagerTest, RequestThatEndsFirstStays) {
  api_.on_move = [&](ScriptedStream& stream, const StartMoveArgs&) {
    stream.Say(MigrationState::kPrecopy, RequestEnded{.output_tokens = 25});
    stream.End(absl::OkStatus());
  };
  JobRecord job = RunJob(Spec());
  EXPECT_EQ(job.state, MigrationState::kStayed);
  EXPECT_THAT(job.outcome->error, HasReason("REQUEST_FINISHED"));
  EXPECT_EQ(job.attempts.size(), 1u);
}

TEST_F(ManagerTest, AbsentSetIsFetchedFromPeersFirst) {
  GiveSet("C", Set());
  JobSpec spec = Spec();
  spec.mode = Mode::kRisk;
  spec.allow_lossy = true;
  JobRecord job = RunJob(spec);
  EXPECT_EQ(job.state, MigrationState::kSucceeded);
  EXPECT_EQ(job.outcome->mode, Mode::kRisk);
  EXPECT_EQ(job.outcome->predictor_set, "set1");
  EXPECT_THAT(api_.fetches(), ElementsAre("A:set1", "B:set1"));
  EXPECT_EQ(store_->Counters(kSetMovesPrefix).value().at(SetMovesCounter("set1")), 1);
  EXPECT_TRUE(registry_->FindAlive("B")->Holds("set1"));
}

TEST_F(ManagerTest, ASetThatCannotBeFetchedFallsBack) {
  GiveSet("A", Set());
  api_.on_fetch = [](const WorkerName&, const std::string&) {
    return MakeError(absl::StatusCode::kDataLoss, "DIGEST", "the file's digest is another");
  };
  JobSpec spec = Spec();
  spec.mode = Mode::kRisk;
  spec.allow_lossy = true;
  JobRecord job = RunJob(spec);
  EXPECT_EQ(job.outcome->mode, Mode::kFull);
  EXPECT_EQ(job.attempts.size(), 1u);  // RISK never opened one
}

TEST_F(ManagerTest, DeadlineClosesAnUndecidedAttempt) {
  Fence fence;
  api_.on_move = [&](ScriptedStream& stream, const StartMoveArgs& args) {
    fence = args.fence;
    UpToFinal(stream, args);
    stream.AwaitCancel(absl::Seconds(20));
  };
  JobSpec spec = Spec();
  spec.deadline_ms = 3000;
  ASSERT_OK_AND_ASSIGN(auto job, manager_->StartJob(spec));
  ASSERT_TRUE(Eventually([&] { return job->state() == MigrationState::kFinal; }));
  Pass(absl::Seconds(4), {"A", "B"});
  JobRecord record = Await(*job);
  EXPECT_EQ(record.state, MigrationState::kAborted);
  EXPECT_THAT(record.outcome->error, HasReason("DEADLINE_TOTAL"));
  EXPECT_TRUE(Eventually([&] { return api_.WasTold("A", Decision::kAborted) && api_.WasTold("B", Decision::kAborted); }));
  // A late PREPARED of the closed attempt.
  ASSERT_OK_AND_ASSIGN(DecisionReply late, manager_->Prepared(fence, 22));
  EXPECT_EQ(late.decision, Decision::kAborted);
  EXPECT_EQ(Owner().owner.id, "A");
}

TEST_F(ManagerTest, QueueingCountsAgainstTheDeadline) {
  StopManager();
  options_.max_jobs = 1;
  StartManager();
  api_.on_move = [&](ScriptedStream& stream, const StartMoveArgs&) { stream.AwaitCancel(absl::Seconds(20)); };
  RequestInfo second = Request(1);
  second.request_id = "bootA-02";
  api_.SetRequest(second);
  ASSERT_OK_AND_ASSIGN(auto running, manager_->StartJob(Spec()));
  ASSERT_TRUE(Eventually([&] { return running->state() >= MigrationState::kReserved; }));
  JobSpec spec = Spec("m2");
  spec.request_id = "bootA-02";
  spec.deadline_ms = 2000;
  ASSERT_OK_AND_ASSIGN(auto waiting, manager_->StartJob(spec));
  JobSpec third = Spec("m3");
  third.request_id = "bootA-02";
  Pass(absl::Seconds(3), {"A", "B"});
  JobRecord record = Await(*waiting);
  EXPECT_EQ(record.state, MigrationState::kAborted);
  EXPECT_THAT(record.outcome->error, HasReason("DEADLINE_QUEUE"));
  ASSERT_OK(manager_->CancelJob("m1"));
  EXPECT_EQ(Await(*running).state, MigrationState::kAborted);
}

TEST_F(ManagerTest, CancelBeforeTheDecision) {
  api_.on_move = [&](ScriptedStream& stream, const StartMoveArgs& args) {
    UpToFinal(stream, args);
    stream.AwaitCancel(absl::Seconds(20));
  };
  ASSERT_OK_AND_ASSIGN(auto job, manager_->StartJob(Spec()));
  ASSERT_TRUE(Eventually([&] { return job->state() == MigrationState::kFinal; }));
  ASSERT_OK(manager_->CancelJob("m1"));
  EXPECT_FALSE(Owner().open.has_value());
  JobRecord record = Await(*job);
  EXPECT_EQ(record.state, MigrationState::kAborted);
  EXPECT_THAT(record.outcome->error, HasReason("CANCELLED_BY_CALLER"));
  EXPECT_TRUE(Eventually([&] { return api_.WasTold("A", Decision::kAborted) && api_.WasTold("B", Decision::kAborted); }));
  EXPECT_OK(manager_->CancelJob("m1"));  // again
}

TEST_F(ManagerTest, CancelAfterTheDecision) {
  std::atomic<bool> go{false};
  api_.on_move = [&](ScriptedStream& stream, const StartMoveArgs& args) {
    UpToFinal(stream, args);
    DecisionReply decision = Ask([&] { return manager_->Prepared(args.fence, 22); });
    while (!go && !stopping_) absl::SleepFor(absl::Milliseconds(1));
    Ask([&] { return manager_->Resumed(args.fence, decision.epoch); });
    stream.End(absl::OkStatus());
  };
  ASSERT_OK_AND_ASSIGN(auto job, manager_->StartJob(Spec()));
  ASSERT_TRUE(Eventually([&] { return job->state() == MigrationState::kCommitted; }));
  EXPECT_THAT(manager_->CancelJob("m1"), HasReason("ALREADY_COMMITTED"));
  go = true;
  EXPECT_EQ(Await(*job).state, MigrationState::kSucceeded);
  EXPECT_THAT(manager_->CancelJob("m1"), HasReason("ALREADY_COMMITTED"));
  EXPECT_THAT(manager_->CancelJob("zz"), HasReason("UNKNOWN_MIGRATION"));
}

TEST_F(ManagerTest, WatchFromASequenceNumber) {
  ASSERT_OK_AND_ASSIGN(auto job, manager_->StartJob(Spec()));
  std::vector<uint64_t> seen;
  for (bool ended = false; !ended;) {
    Job::Batch batch = job->WaitEvents(seen.empty() ? 4 : seen.back() + 1, absl::Seconds(1));
    for (const JobEvent& event : batch.events) seen.push_back(event.seq);
    ended = batch.ended;
  }
  EXPECT_EQ(seen.front(), 4u);
  EXPECT_EQ(seen.back(), 11u);
  EXPECT_EQ(seen.size(), 8u);
  // And again from the store, once it has ended.
  ASSERT_TRUE(Eventually([&] { return manager_->Find("m1")->get() != job.get(); }));
  Job::Batch stored = (*manager_->Find("m1"))->WaitEvents(10, absl::ZeroDuration());
  EXPECT_EQ(stored.events.size(), 2u);
  EXPECT_TRUE(stored.ended);
}

TEST_F(ManagerTest, PlanMovesNothing) {
  JobSpec spec = Spec();
  spec.migration_id.clear();
  spec.expected_epoch = 0;
  spec.mode = Mode::kAuto;
  ASSERT_OK_AND_ASSIGN(Plan plan, manager_->MakePlan(spec));
  EXPECT_EQ(plan.alternatives.size(), 5u);
  EXPECT_EQ(plan.inputs.at("n_kv"), 1019);
  EXPECT_NEAR(plan.inputs.at("bandwidth"), 5e8, 1);  // measured for it
  EXPECT_THAT(plan.Find(Mode::kRisk)->why_not, HasSubstr("does not allow lossy"));
  EXPECT_TRUE(manager_->List({})->empty());
}

TEST_F(ManagerTest, AutoStaysWhenMovingDoesNotPay) {
  JobSpec spec = Spec();
  spec.mode = Mode::kAuto;
  JobRecord job = RunJob(spec);
  EXPECT_EQ(job.state, MigrationState::kStayed);
  EXPECT_OK(job.outcome->error);
  EXPECT_TRUE(api_.moves().empty());
  spec.migration_id = "m2";
  spec.must_move = true;
  EXPECT_EQ(RunJob(spec).state, MigrationState::kSucceeded);
}

TEST_F(ManagerTest, ListsAndPrunes) {
  RunJob(Spec());
  EXPECT_EQ(manager_->List({.request_id = kRequest})->size(), 1u);
  EXPECT_EQ(manager_->List({.active_only = true})->size(), 0u);
  Pass(absl::Minutes(11), {"A", "B", "C"});
  EXPECT_TRUE(Eventually([&] { return manager_->List({})->empty(); }));
}

}  // namespace
}  // namespace riskkv::coordinator

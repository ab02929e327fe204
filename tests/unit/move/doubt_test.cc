// From FINAL and PREPARED on: only a decision, or a definite refusal, ends the wait (protocol.md 2.6 to 2.10).
#include "tests/unit/move/move_fixture.h"

namespace riskkv::worker::testing {
namespace {

class DoubtTest : public MoveTest {
 protected:
  std::string Running(int prompt = 300, int max_tokens = 300) {
    const std::string id = Admit(prompt, max_tokens);
    AwaitTokens(*a_, id, prompt + 2);
    return id;
  }
  std::shared_ptr<OutgoingMove> Begin(const StartMoveParams& p) {
    EXPECT_OK(Reserve(*a_, *b_, p));
    auto move = a_->outgoing->Start(p);
    EXPECT_OK(move);
    return move.ok() ? *move : nullptr;
  }
  RequestState StateAt(Node& node, const std::string& id) {
    auto s = node.manager->Get(id);
    return s.ok() ? s->state : RequestState::kQueued;
  }
};

TEST_F(DoubtTest, PeerGoneAtFinalIsNoRefusal) {
  const std::string id = Running();
  b_->wire.gone_at_final = true;
  const StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  auto move = Begin(p);
  ASSERT_TRUE(Eventually([&] { return authority_.resolve_calls >= 3; }));
  EXPECT_EQ(StateAt(*a_, id), RequestState::kPaused) << "a source in doubt does not decode";
  EXPECT_EQ(a_->outgoing->Query(p.fence).state, MoveState::kFinal);
  // Only what is durable ends it: found by Resolve, without a message.
  authority_.Close(p.fence);
  const Outcome out = Follow(*move);
  EXPECT_FALSE(out.failed.ok());
  b_->incoming->Decide(p.fence, authority_.Close(p.fence));
  EXPECT_EQ(Output(*a_, id), Unmoved(300, 300));
  ExpectIdle();
}

TEST_F(DoubtTest, LostFinalReply) {
  const std::string id = Running();
  b_->wire.lose_final_reply = true;
  const Outcome out = Move(*a_, *b_, id, MoveMode::kFull, "m");
  EXPECT_EQ(out.last, MoveState::kResumed) << "the decision was commit: the source finds out";
  EXPECT_EQ(Output(*b_, id), Unmoved(300, 300));
  ExpectIdle();
}

TEST_F(DoubtTest, DestinationRefusesFinalDefinitely) {
  const std::string id = Running();
  StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  b_->wire.before_final = [&] { b_->incoming->Abort(p.fence, absl::CancelledError("by the test")); };
  auto move = Begin(p);
  const Outcome out = Follow(*move);
  EXPECT_THAT(out.failed, HasReason("CANCELLED_BY_PEER"));
  EXPECT_EQ(authority_.prepared_calls, 0);
  EXPECT_EQ(Output(*a_, id), Unmoved(300, 300));
  ExpectIdle();
}

TEST_F(DoubtTest, CoordinatorAwayAtPrepared) {
  const std::string id = Running();
  b_->wire.before_final = [&] { authority_.unreachable = true; };
  const StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  auto move = Begin(p);
  ASSERT_TRUE(Eventually([&] { return authority_.prepared_calls >= 3; }));
  EXPECT_EQ(StateAt(*a_, id), RequestState::kPaused);
  EXPECT_EQ(StateAt(*b_, id), RequestState::kIncoming);
  authority_.unreachable = false;
  EXPECT_EQ(Follow(*move).last, MoveState::kResumed);
  EXPECT_EQ(Output(*b_, id), Unmoved(300, 300));
  ExpectIdle();
}

TEST_F(DoubtTest, LostPreparedReplyIsAskedAgain) {
  const std::string id = Running();
  authority_.lose_prepared_reply = true;
  EXPECT_EQ(Move(*a_, *b_, id, MoveMode::kRisk, "m").last, MoveState::kResumed);
  EXPECT_GE(authority_.prepared_calls, 2);
  EXPECT_EQ(Output(*b_, id), Unmoved(300, 300));
  ExpectIdle();
}

TEST_F(DoubtTest, AbortedWhilePrepared) {
  const std::string id = Running();
  const StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  b_->wire.before_final = [&] { authority_.unreachable = true; };
  auto move = Begin(p);
  ASSERT_TRUE(Eventually([&] { return b_->incoming->Query(p.fence).state == MoveState::kPrepared; }));
  const DecisionInfo aborted = authority_.Close(p.fence);
  for (int i = 0; i < 2; ++i) {
    b_->incoming->Decide(p.fence, aborted);
    a_->outgoing->Decide(p.fence, aborted);
  }
  EXPECT_FALSE(Follow(*move).failed.ok());
  EXPECT_EQ(Output(*a_, id), Unmoved(300, 300));
  EXPECT_THAT(b_->manager->Get(id), HasReason("UNKNOWN_REQUEST"));
  ExpectIdle();
}

TEST_F(DoubtTest, AFinalThatComesAgainAfterPreparedIsNoRefusal) {
  const std::string id = Running();
  const StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  b_->wire.before_final = [&] { authority_.unreachable = true; };
  auto move = Begin(p);
  ASSERT_TRUE(Eventually([&] { return b_->incoming->Query(p.fence).state == MoveState::kPrepared; }));
  const DecisionInfo aborted = authority_.Close(p.fence);
  b_->incoming->Decide(p.fence, aborted);
  ASSERT_TRUE(Eventually([&] { return b_->incoming->active() == 0; }));
  FinalRequest again;
  again.fence = p.fence;
  const absl::Status answer = b_->incoming->Final(again).status();
  EXPECT_THAT(answer, HasReason("IN_DOUBT"));
  EXPECT_FALSE(IsDefiniteRefusal(answer)) << "after a roll-back the source would go on under its old epoch";
  a_->outgoing->Decide(p.fence, aborted);
  EXPECT_FALSE(Follow(*move).failed.ok());
  EXPECT_EQ(Output(*a_, id), Unmoved(300, 300));
  ExpectIdle();
}

TEST_F(DoubtTest, LateAndDoubledDecisionsChangeNothing) {
  const std::string id = Running();
  const StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  EXPECT_FALSE(b_->incoming->Decide(p.fence, {Decision::kCommitted, 2, 1})) << "nothing is known yet";
  ASSERT_EQ(Move(*a_, *b_, p).last, MoveState::kResumed);
  for (Decision d : {Decision::kCommitted, Decision::kResumed, Decision::kAborted, Decision::kRolledBack, Decision::kCommitted}) {
    b_->incoming->Decide(p.fence, {d, 2, 1});
    a_->outgoing->Decide(p.fence, {d, 2, 1});
  }
  EXPECT_EQ(Output(*b_, id), Unmoved(300, 300));
  EXPECT_EQ(StateAt(*a_, id), RequestState::kMoved);
  ExpectIdle();
}

TEST_F(DoubtTest, SourceKeepsCellsUntilResumedAndTakesARollBack) {
  const std::string id = Running();
  authority_.hold_resumed = true;
  const StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  auto move = Begin(p);
  ASSERT_TRUE(Eventually([&] { return a_->outgoing->Query(p.fence).state == MoveState::kCommitted; }));
  EXPECT_GT(a_->manager->Load().cells_used, 0) << "freed only on RESUMED";
  auto held = b_->manager->Attach(id, 0, 2);
  ASSERT_OK(held);
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_THAT((*held)->Next(absl::Milliseconds(1)), StatusIs(absl::StatusCode::kDeadlineExceeded)) << "nothing is delivered before RESUMED";
  const DecisionInfo back = authority_.RollBack(p.fence);
  ASSERT_EQ(back.decision, Decision::kRolledBack);
  authority_.hold_resumed = false;
  const Outcome out = Follow(*move);
  EXPECT_FALSE(out.failed.ok());
  EXPECT_EQ(Output(*a_, id), Unmoved(300, 300));
  EXPECT_EQ(a_->manager->Get(id)->epoch, 3u);
  held->reset();
  ExpectIdle();
}

TEST_F(DoubtTest, ARollBackThatComesAfterARecoveryFreesTheFormerSelf) {
  const std::string id = Running();
  authority_.hold_resumed = true;
  const StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  auto move = Begin(p);
  ASSERT_TRUE(Eventually([&] { return a_->outgoing->Query(p.fence).state == MoveState::kCommitted; }));
  // As Adopt does it: the roll-back (epoch 3) and a Recover (epoch 4) happened, and the second was heard first.
  const auto moved = a_->manager->Get(id);
  ASSERT_OK(moved);
  std::vector<Token> history = moved->prompt;
  for (const LoggedToken& t : moved->log) history.push_back(t.token);
  const int64_t cells = static_cast<int64_t>(history.size()) - 1;
  auto reservation = a_->manager->Reserve(cells + 512);
  ASSERT_OK(reservation);
  ASSERT_OK(a_->manager->Prefill(*reservation, history, cells));
  ASSERT_OK(a_->manager->Install(*reservation, {id, moved->params, moved->prompt, moved->log, {}}));
  ASSERT_OK(a_->manager->Activate(id, 4, static_cast<int64_t>(moved->log.size())));
  ASSERT_OK(a_->manager->AllowDelivery(id));
  ASSERT_EQ(authority_.RollBack(p.fence).decision, Decision::kRolledBack);
  authority_.hold_resumed = false;
  EXPECT_FALSE(Follow(*move).failed.ok());
  EXPECT_EQ(a_->manager->Get(id)->epoch, 4u) << "the later epoch stands";
  EXPECT_EQ(Output(*a_, id), Unmoved(300, 300));
  ExpectIdle();
}

TEST_F(DoubtTest, StaleFencesAreRefusedAndCounted) {
  const std::string id = Running();
  StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m", 2);
  p.hold_for_tests = absl::Seconds(20);
  auto move = Begin(p);
  ASSERT_TRUE(Eventually([&] { return b_->wire.declares > 0; }));
  StartMoveParams older = p;
  older.fence.attempt = 1;
  EXPECT_THAT(Reserve(*a_, *b_, older), HasReason("STALE_FENCE"));
  RoundManifest manifest;
  manifest.fence = older.fence;
  EXPECT_THAT(b_->incoming->DeclareRound(manifest), HasReason("STALE_FENCE"));
  manifest.fence = p.fence;
  manifest.fence.epoch = 9;
  EXPECT_THAT(b_->incoming->DeclareRound(manifest), HasReason("STALE_FENCE"));
  manifest.fence = p.fence;
  manifest.fence.destination_boot_id = "another";
  EXPECT_THAT(b_->incoming->DeclareRound(manifest), HasReason("BOOT_ID_CHANGED"));
  manifest.fence = p.fence;
  manifest.fence.migration_id = "unknown";
  EXPECT_THAT(b_->incoming->DeclareRound(manifest), HasReason("UNKNOWN_ATTEMPT"));
  IncomingMoves::Push push(b_->incoming.get());
  EXPECT_THAT(push.Accept({"m", 2, 9, 1}), HasReason("STALE_FENCE"));
  EXPECT_THAT(push.Accept({"m", 1, 1, 1}), HasReason("STALE_FENCE"));
  EXPECT_GE(b_->incoming->stale_refusals(), 5);
  a_->outgoing->Decide(p.fence, authority_.Close(p.fence));
  Follow(*move);
  EXPECT_THAT(a_->outgoing->Start(older).status(), HasReason("STALE_FENCE"));
  EXPECT_EQ(Output(*a_, id), Unmoved(300, 300));
  ExpectIdle();
}

TEST_F(DoubtTest, DefiniteRefusals) {
  auto error = [](const char* reason, const char* side) {
    return WithContext(MakeError(absl::StatusCode::kAborted, reason, "x"), side, "FINAL");
  };
  EXPECT_TRUE(IsDefiniteRefusal(error("VERIFY_GATE", "destination")));
  EXPECT_TRUE(IsDefiniteRefusal(error("UNKNOWN_ATTEMPT", "destination")));
  EXPECT_FALSE(IsDefiniteRefusal(error("BOOT_ID_CHANGED", "destination"))) << "another boot does not know what this one had prepared";
  EXPECT_FALSE(IsDefiniteRefusal(error("ALREADY_COMMITTED", "destination")));
  EXPECT_TRUE(IsDefiniteRefusal(error("STATE_NOT_TRANSFERABLE", "source"))) << "it was never sent";
  EXPECT_FALSE(IsDefiniteRefusal(error("PEER_UNREACHABLE", "")));
  EXPECT_FALSE(IsDefiniteRefusal(absl::InternalError("RST_STREAM")));
  EXPECT_FALSE(IsDefiniteRefusal(absl::DeadlineExceededError("late")));
}

TEST_F(DoubtTest, ShutdownInEveryStateFreesNothingTwice) {
  const std::string id = Running();
  authority_.unreachable = true;
  const StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  auto move = Begin(p);
  ASSERT_TRUE(Eventually([&] { return b_->incoming->Query(p.fence).state == MoveState::kPrepared; }));
  move.reset();
  a_->outgoing.reset();  // in doubt: the request stays paused
  EXPECT_EQ(StateAt(*a_, id), RequestState::kPaused);
  b_->outgoing.reset();
  b_->incoming.reset();
  EXPECT_EQ(StateAt(*b_, id), RequestState::kIncoming);
}

}  // namespace
}  // namespace riskkv::worker::testing

// Moves that do not happen: refused before or during pre-copy, with the source going on.
#include "tests/unit/move/move_fixture.h"

namespace riskkv::worker::testing {
namespace {

// A source that did not move: the request ends there as if nothing had been.
class RefusalTest : public MoveTest {
 protected:
  void ExpectGoesOn(const std::string& id, int prompt, int max_tokens) {
    EXPECT_EQ(Output(*a_, id), Unmoved(prompt, max_tokens));
    EXPECT_EQ(a_->manager->Get(id)->epoch, 1u);
    ExpectIdle();
  }
};

TEST_F(RefusalTest, WrongPredictorIsRefusedByTheProbe) {
  const std::string wrong = a_->AddSet(1.5f);
  b_->AddSet(1.5f);
  const std::string id = Admit(600, 300);
  AwaitTokens(*a_, id, 602);
  StartMoveParams p = Params(*a_, *b_, id, MoveMode::kRisk, "m");
  p.predictor_set = wrong;
  const Outcome out = Move(*a_, *b_, p);
  ASSERT_OK(out.reserve);
  EXPECT_THAT(out.failed, StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(out.failed, HasReason("VERIFY_GATE"));
  EXPECT_EQ(GetDetail(out.failed)->side, "destination");
  EXPECT_EQ(authority_.prepared_calls, 0);
  // The same request then moves FULL.
  const Outcome full = Move(*a_, *b_, Params(*a_, *b_, id, MoveMode::kFull, "m", 2));
  EXPECT_EQ(full.last, MoveState::kResumed);
  EXPECT_EQ(Output(*b_, id), Unmoved(600, 300));
  ExpectIdle();
}

TEST_F(RefusalTest, SetOrProfileMissing) {
  const std::string id = Admit(300, 200);
  AwaitTokens(*a_, id, 302);
  StartMoveParams p = Params(*a_, *b_, id, MoveMode::kRisk, "m");
  p.predictor_set = std::string(64, '0');
  EXPECT_THAT(Reserve(*a_, *b_, p), HasReason("PREDICTOR_MISSING"));
  p.predictor_set = digest_;
  p.profile = "risk-none";
  EXPECT_THAT(Reserve(*a_, *b_, p), HasReason("UNKNOWN_PROFILE"));
  ExpectGoesOn(id, 300, 200);
}

// What the source was asked for and this destination cannot do: said before a byte moves, not at FINAL.
TEST_F(RefusalTest, ParametersThatCannotBeCarried) {
  const std::string id = Admit(300, 200);
  AwaitTokens(*a_, id, 302);
  ReserveParams r;
  r.fence = Params(*a_, *b_, id, MoveMode::kFull, "m").fence;
  r.fingerprint = a_->manager->facts().fingerprint;
  r.mode = MoveMode::kFull;
  r.n_kv = 301;
  r.params.sampling.top_p = 2;
  EXPECT_THAT(b_->incoming->Reserve(r), HasReason("STATE_NOT_TRANSFERABLE"));
  EXPECT_THAT(b_->incoming->Reserve(r), StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::HasSubstr("top_p")));
  r.params.sampling.top_p = 1;
  r.params.stop.stop.assign(17, "x");
  EXPECT_THAT(b_->incoming->Reserve(r), HasReason("STATE_NOT_TRANSFERABLE"));
  EXPECT_THAT(b_->incoming->Reserve(r), StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::HasSubstr("17 strings")));
  ExpectGoesOn(id, 300, 200);
}

TEST_F(RefusalTest, OtherModel) {
  FakeOptions other = FastEngine();
  other.model_seed = 2;
  Build(FastEngine(1500), other);
  const std::string id = Admit(100, 100);
  AwaitTokens(*a_, id, 102);
  const Outcome out = Move(*a_, *b_, id, MoveMode::kFull, "m");
  EXPECT_THAT(out.reserve, HasReason("MODEL_MISMATCH"));
  ExpectGoesOn(id, 100, 100);
}

TEST_F(RefusalTest, DestinationWithoutRoom) {
  FakeOptions small = FastEngine();
  small.n_cells = 256;
  Build(FastEngine(1500), small);
  const std::string id = Admit(600, 200);
  AwaitTokens(*a_, id, 602);
  const Outcome out = Move(*a_, *b_, id, MoveMode::kFull, "m");
  EXPECT_THAT(out.reserve, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(out.reserve, HasReason("NO_BLOCKS"));
  ExpectGoesOn(id, 600, 200);
}

TEST_F(RefusalTest, ReservationOutgrown) {
  const std::string id = Admit(300, 3000);
  AwaitTokens(*a_, id, 302);
  const StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  ReserveParams r;
  r.fence = p.fence;
  r.fingerprint = a_->manager->facts().fingerprint;
  r.mode = p.mode;
  r.n_kv = 10;
  ASSERT_OK(b_->incoming->Reserve(r));
  auto move = a_->outgoing->Start(p);
  ASSERT_OK(move);
  EXPECT_THAT(Follow(**move).failed, HasReason("NO_BLOCKS"));
  ASSERT_OK(a_->manager->Cancel(id));
  ExpectIdle();
}

TEST_F(RefusalTest, PeerGoneInPrecopy) {
  const std::string id = Admit(600, 200);
  AwaitTokens(*a_, id, 602);
  StartMoveParams p = Params(*a_, *b_, id, MoveMode::kRisk, "m");
  ASSERT_OK(Reserve(*a_, *b_, p));
  b_->wire.gone = true;
  auto move = a_->outgoing->Start(p);
  ASSERT_OK(move);
  EXPECT_THAT(Follow(**move).failed, HasReason("PEER_UNREACHABLE"));
  EXPECT_EQ(Output(*a_, id), Unmoved(600, 200));
  EXPECT_EQ(b_->incoming->active(), 1) << "held under its lease";
  EXPECT_TRUE(b_->incoming->Decide(p.fence, authority_.Close(p.fence)));
  ExpectIdle();
}

TEST_F(RefusalTest, LeaseExpires) {
  const std::string id = Admit(600, 200);
  AwaitTokens(*a_, id, 602);
  StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  ReserveParams r;
  r.fence = p.fence;
  r.fingerprint = a_->manager->facts().fingerprint;
  r.mode = p.mode;
  r.n_kv = 600;
  r.lease = absl::Milliseconds(50);
  ASSERT_OK(b_->incoming->Reserve(r));
  ExpectGoesOn(id, 600, 200);
  EXPECT_EQ(b_->incoming->Query(p.fence).state, MoveState::kFailed);
  EXPECT_THAT(b_->incoming->Query(p.fence).error, HasReason("NO_PROGRESS"));
}

TEST_F(RefusalTest, RequestEndsBeforeFinal) {
  const std::string id = Admit(300, 40);
  AwaitTokens(*a_, id, 302);
  StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  p.hold_for_tests = absl::Seconds(20);
  const Outcome out = Move(*a_, *b_, p);
  ASSERT_OK(out.reserve);
  EXPECT_TRUE(out.ended);
  EXPECT_OK(out.failed);
  EXPECT_EQ(out.last, MoveState::kStayed);
  EXPECT_GE(b_->wire.aborts, 1);
  ExpectGoesOn(id, 300, 40);
}

TEST_F(RefusalTest, AbortedByTheCoordinatorInPrecopy) {
  const std::string id = Admit(300, 400);
  AwaitTokens(*a_, id, 302);
  StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  p.hold_for_tests = absl::Seconds(20);
  ASSERT_OK(Reserve(*a_, *b_, p));
  auto move = a_->outgoing->Start(p);
  ASSERT_OK(move);
  ASSERT_TRUE(Eventually([&] { return b_->wire.declares > 0; }));
  DecisionInfo aborted = authority_.Close(p.fence);
  aborted.reason = MakeError(absl::StatusCode::kCancelled, "CANCELLED_BY_CALLER", "cancelled");
  const absl::Time told = absl::Now();
  EXPECT_TRUE(a_->outgoing->Decide(p.fence, aborted));
  EXPECT_TRUE(a_->outgoing->Decide(p.fence, aborted)) << "doubled";
  b_->incoming->Decide(p.fence, aborted);
  EXPECT_THAT(Follow(**move).failed, HasReason("CANCELLED_BY_CALLER"));
  EXPECT_LT(absl::Now() - told, absl::Seconds(2));
  ExpectGoesOn(id, 300, 400);
}

TEST_F(RefusalTest, PauseBudgetExceeded) {
  const std::string id = Admit(300, 300);
  AwaitTokens(*a_, id, 302);
  b_->wire.delay_us = 5000;
  StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  p.max_pause = absl::Milliseconds(1);
  const Outcome out = Move(*a_, *b_, p);
  EXPECT_THAT(out.failed, HasReason("PAUSE_BUDGET"));
  EXPECT_EQ(std::count(out.states.begin(), out.states.end(), MoveState::kPaused), 0) << "never paused";
  ExpectGoesOn(id, 300, 300);
}

TEST_F(RefusalTest, Deadline) {
  const std::string id = Admit(300, 300);
  AwaitTokens(*a_, id, 302);
  StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m");
  p.deadline = absl::Milliseconds(30);
  p.hold_for_tests = absl::Seconds(20);
  EXPECT_THAT(Move(*a_, *b_, p).failed, HasReason("DEADLINE_TOTAL"));
  ExpectGoesOn(id, 300, 300);
}

TEST_F(RefusalTest, DamagedFramesAreSentAgain) {
  const std::string id = Admit(300, 300);
  AwaitTokens(*a_, id, 302);
  b_->wire.flip_frames = 1;
  EXPECT_EQ(Move(*a_, *b_, id, MoveMode::kFull, "m").last, MoveState::kResumed);
  EXPECT_EQ(Output(*b_, id), Unmoved(300, 300));
  ExpectIdle();
}

TEST_F(RefusalTest, SegmentThatIsNotWhatWasDeclared) {
  const std::string id = Admit(300, 300);
  AwaitTokens(*a_, id, 302);
  b_->wire.flip_payloads = 1;
  EXPECT_THAT(Move(*a_, *b_, id, MoveMode::kFull, "m").failed, HasReason("DIGEST"));
  ExpectGoesOn(id, 300, 300);
}

TEST_F(RefusalTest, UnknownRequestWrongEpochAndSecondMove) {
  EXPECT_THAT(Move(*a_, *b_, "nobody", MoveMode::kFull, "m0").start, HasReason("UNKNOWN_REQUEST"));
  const std::string id = Admit(300, 400);
  AwaitTokens(*a_, id, 302);
  StartMoveParams p = Params(*a_, *b_, id, MoveMode::kFull, "m1");
  p.fence.epoch = 7;
  EXPECT_THAT(a_->outgoing->Start(p).status(), HasReason("EPOCH_CONFLICT"));
  p = Params(*a_, *b_, id, MoveMode::kFull, "m2");
  p.hold_for_tests = absl::Seconds(20);
  ASSERT_OK(Reserve(*a_, *b_, p));
  auto move = a_->outgoing->Start(p);
  ASSERT_OK(move);
  EXPECT_OK(a_->outgoing->Start(p)) << "the same attempt again joins it";
  EXPECT_THAT(a_->outgoing->Start(Params(*a_, *b_, id, MoveMode::kFull, "m3")).status(), HasReason("ALREADY_MIGRATING"));
  a_->outgoing->Decide(p.fence, authority_.Close(p.fence));
  EXPECT_FALSE(Follow(**move).failed.ok());
  for (const char* m : {"m0", "m1", "m2"}) {
    Fence f = p.fence;
    f.migration_id = m;
    f.request_id = m == std::string("m0") ? "nobody" : id;
    b_->incoming->Abort(f, absl::OkStatus());
  }
  ExpectGoesOn(id, 300, 400);
}

}  // namespace
}  // namespace riskkv::worker::testing

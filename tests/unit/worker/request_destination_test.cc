// The manager at the destination of a move.
#include "tests/unit/worker/move_steps.h"

namespace riskkv::worker::testing {
namespace {

TEST(Destination, ReserveNamesFreeAndWanted) {
  FakeOptions options;
  options.n_cells = 100;
  options.n_sequences = 2;
  TestWorker w(options);
  ASSERT_OK_AND_ASSIGN(const ReservationId first, w.manager->Reserve(70));
  EXPECT_EQ(w.manager->Load().cells_used, 70);
  auto refused = w.manager->Reserve(40);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("40 KV cells wanted, 30 of 100 free")));
  EXPECT_THAT(refused, HasReason("NO_BLOCKS"));
  ASSERT_OK(w.manager->Reserve(10));
  EXPECT_THAT(w.manager->Reserve(1), HasReason("NO_SLOT"));
  w.manager->Release(first);
  w.manager->Release(first);
  EXPECT_EQ(w.manager->Load().cells_used, 10);
  EXPECT_THAT(w.manager->Append(first, {}), HasReason("UNKNOWN_ATTEMPT"));
  EXPECT_EQ(w.manager->ReservedLength(first), 0);
}

TEST(Destination, ReservationsHoldAdmissionBack) {
  FakeOptions options;
  options.n_cells = 100;
  TestWorker w(options);
  ASSERT_OK_AND_ASSIGN(const ReservationId r, w.manager->Reserve(80));
  const std::string id = w.Admit(Greedy(20), Prompt(10));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(w.StateOf(id), RequestState::kQueued);
  w.manager->Release(r);
  EXPECT_EQ(ReadAll(*w.Attach(id)).tokens.size(), 20u);
}

TEST(Destination, InstallChecksWhatItGets) {
  TestWorker w;
  ASSERT_OK_AND_ASSIGN(const ReservationId r, w.manager->Reserve(50));
  IncomingRequest in{"other-1", Greedy(10), Prompt(9), {}, {}};
  EXPECT_THAT(w.manager->Install(r, in), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs 8 cells, 0 are there")));
  EXPECT_THAT(w.manager->Install(r, in), HasReason("MANIFEST_MISMATCH"));
  in.log = {LoggedToken{.index = 1, .token = 5}};
  EXPECT_THAT(w.manager->Install(r, in), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("index 1 at place 0")));
  in.log = {LoggedToken{.index = 0, .token = 1 << 20}};
  EXPECT_THAT(w.manager->Install(r, in), HasReason("BAD_ARGUMENT"));
  w.manager->Release(r);
  EXPECT_TRUE(w.Idle());
}

TEST(Destination, InstallWithoutHeadroomIsRefused) {
  FakeOptions options;
  options.n_cells = 100;
  TestWorker w(options);
  ASSERT_OK_AND_ASSIGN(const ReservationId r, w.manager->Reserve(10));
  ASSERT_OK(w.manager->Prefill(r, Prompt(9), 8));
  ASSERT_OK(w.manager->Reserve(60));
  auto refused = w.manager->Install(r, {"other-1", Greedy(60), Prompt(9), {}, {}});
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("30 of 100 free")));
  EXPECT_THAT(refused, HasReason("NO_BLOCKS"));
  EXPECT_EQ(w.manager->ReservedLength(r), 8) << "the reservation is as it was";
}

TEST(Destination, ReplayGivesTheSameCells) {
  const std::vector<Token> want = Unmoved(Greedy(40), Prompt(100));
  ManagerOptions options;
  options.prefill_chunk = options.prefill_chunk_moving = 16;
  TestWorker a(Slow()), b(Slow(absl::Milliseconds(1)), options);
  const std::string id = a.Admit(Greedy(40), Prompt(100));
  ReadTokens(*a.Attach(id), 6);
  ASSERT_OK(a.manager->BeginMove(id, 1));
  ASSERT_OK_AND_ASSIGN(const RequestSnapshot paused, a.manager->Pause(id));
  std::vector<Token> history = paused.prompt;
  for (const LoggedToken& t : paused.log) history.push_back(t.token);
  auto other = b.Attach(b.Admit(Greedy(100), Prompt(7)));
  ReadTokens(*other, 1);
  ASSERT_OK_AND_ASSIGN(const ReservationId r, b.manager->Reserve(200));
  EXPECT_THAT(b.manager->Prefill(r, history, paused.n_tokens() + 1), HasReason("BAD_RANGE"));
  ASSERT_OK(b.manager->Prefill(r, history, 50));
  EXPECT_EQ(b.manager->ReservedLength(r), 50);
  ASSERT_OK(b.manager->Prefill(r, history, paused.n_kv));
  ASSERT_OK(b.manager->Prefill(r, history, paused.n_kv)) << "there already";
  ASSERT_OK(b.manager->Install(r, Incoming(paused)));
  ASSERT_OK(b.manager->Activate(id, 2, paused.output_tokens));
  ASSERT_OK(b.manager->AllowDelivery(id));
  EXPECT_EQ(ReadAll(*b.Attach(id)).ids(), want);
  EXPECT_EQ(ReadAll(*other).tokens.size(), 99u);
}

TEST(Destination, NothingIsDeliveredBeforeAllowDelivery) {
  TestWorker a(Slow()), b;
  const std::string id = a.Admit(Greedy(30), Prompt(10));
  ReadTokens(*a.Attach(id), 3);
  ASSERT_OK(a.manager->BeginMove(id, 1));
  Prepare(a, b, id);
  auto held = b.Attach(id, 0, 7);  // whatever epoch the client has seen: it waits
  EXPECT_TRUE(absl::IsDeadlineExceeded(held->Next(absl::Milliseconds(20)).status()));
  EXPECT_THAT(b.manager->AllowDelivery(id), HasReason("NOT_OWNER"));
  const int64_t start = a.manager->Get(id)->output_tokens;
  EXPECT_THAT(b.manager->Activate(id, 2, start + 1), HasReason("BAD_RANGE"));
  ASSERT_OK(b.manager->Activate(id, 2, start));
  ASSERT_OK(b.manager->Activate(id, 2, start)) << "told twice";
  ASSERT_TRUE(Eventually([&] { return b.StateOf(id) == RequestState::kFinished; })) << "it decodes all the same";
  EXPECT_TRUE(absl::IsDeadlineExceeded(held->Next(absl::Milliseconds(20)).status()));
  b.clock.Advance(absl::Hours(1));
  absl::SleepFor(absl::Milliseconds(60));
  ASSERT_OK(b.manager->AllowDelivery(id)) << "an end that was not delivered does not age";
  const Received got = ReadAll(*held);
  EXPECT_EQ(got.tokens.size(), 30u);
  EXPECT_TRUE(got.end);
}

// Found by the soak: a Recover whose answer was lost named an index, and its client read on from the former owner.
TEST(Destination, WhoHasTokensThatTheEpochBeganWithoutIsRefused) {
  TestWorker a(Slow()), b(Slow());
  const std::string id = a.Admit(Greedy(3000), Prompt(10));
  ReadTokens(*a.Attach(id), 3);
  ASSERT_OK(a.manager->BeginMove(id, 1));
  Prepare(a, b, id);
  const int64_t start = a.manager->Get(id)->output_tokens;
  ASSERT_OK(b.manager->Activate(id, 2, start));
  ASSERT_OK(b.manager->AllowDelivery(id));
  ASSERT_TRUE(Eventually([&] { return b.manager->Get(id)->output_tokens > start + 3; }));
  EXPECT_THAT(b.manager->Attach(id, start + 1, 1), StatusIs(absl::StatusCode::kAborted, HasSubstr("epoch 2 starts at index")));
  EXPECT_THAT(b.manager->Attach(id, start + 1, 1), HasReason("EPOCH_CONFLICT"));
  EXPECT_OK(b.manager->Attach(id, start, 1)) << "all that the former owner may have given";
  EXPECT_OK(b.manager->Attach(id, start + 1, 2)) << "of this epoch";
  EXPECT_OK(b.manager->Attach(id, start + 1, 0)) << "who says nothing of epochs is not judged";
}

// Drop in each state it may come in.
TEST(Destination, DropFreesAllAndTellsTheHeldClient) {
  for (int activated = 0; activated < 2; ++activated) {
    for (int named = 0; named < 2; ++named) {
      TestWorker a(Slow()), b(Slow());
      const std::string id = a.Admit(Greedy(3000), Prompt(10));
      ReadTokens(*a.Attach(id), 3);
      ASSERT_OK(a.manager->BeginMove(id, 1));
      Prepare(a, b, id);
      auto held = b.Attach(id);
      if (activated) {
        ASSERT_OK(b.manager->Activate(id, 2, a.manager->Get(id)->output_tokens));
        ASSERT_TRUE(Eventually([&] { return b.manager->Get(id)->output_tokens > a.manager->Get(id)->output_tokens + 2; }));
      }
      const MoveTarget owner = To("a", 3, 0);
      b.manager->Drop(id, named ? &owner : nullptr);
      b.manager->Drop(id);
      EXPECT_TRUE(b.Idle());
      const Received got = ReadAll(*held);
      EXPECT_TRUE(got.tokens.empty());
      if (named) {
        EXPECT_EQ(got.moved->owner.worker_id, "a");
        EXPECT_EQ(ReadAll(*b.Attach(id)).moved->owner.worker_id, "a");
      } else {
        EXPECT_THAT(got.error, HasReason("UNKNOWN_REQUEST"));
        EXPECT_THAT(b.manager->Get(id), HasReason("UNKNOWN_REQUEST"));
      }
      ASSERT_OK(a.manager->ResumeHere(id, activated ? 3 : 0));
      EXPECT_TRUE(*a.manager->Cancel(id));
    }
  }
}

TEST(Destination, DropLeavesWhatIsOwnedAlone) {
  TestWorker w(Slow());
  const std::string id = w.Admit(Greedy(30), Prompt(10));
  auto stream = w.Attach(id);
  ReadTokens(*stream, 1);
  w.manager->Drop(id);
  EXPECT_EQ(ReadAll(*stream).tokens.size(), 29u);
}

TEST(Destination, AppendFailuresLeaveTheReservation) {
  TestWorker a(Slow()), b;
  const std::string id = a.Admit(Greedy(50), Prompt(40));
  ReadTokens(*a.Attach(id), 1);
  ASSERT_OK_AND_ASSIGN(const KvBlock block, a.manager->Export(id, {0, 16}, AllLayers(a.manager->facts().fingerprint.layout)));
  ASSERT_OK_AND_ASSIGN(const ReservationId r, b.manager->Reserve(64));
  b.engine->fake->InjectFault(FakeFault::kAppend, absl::InternalError("copy failed"));
  EXPECT_THAT(b.manager->Append(r, block), StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(b.manager->ReservedLength(r), 0);
  ASSERT_OK(b.manager->Append(r, block));
  EXPECT_FALSE(b.manager->Append(r, block).ok()) << "twice the same block";
  EXPECT_EQ(b.manager->ReservedLength(r), 16);
}

TEST(Destination, RunningRequestsDecodeBetweenBlocks) {
  FakeOptions options = Slow(absl::Milliseconds(1));
  options.append_delay = absl::Milliseconds(15);  // longer than the loop's budget for calls
  TestWorker a(Slow()), b(options);
  const std::string id = a.Admit(Greedy(3000), Prompt(400));
  ReadTokens(*a.Attach(id), 1);
  const std::string other = b.Admit(Greedy(3000), Prompt(5));
  auto stream = b.Attach(other);
  ReadTokens(*stream, 1);
  ASSERT_OK_AND_ASSIGN(const ReservationId r, b.manager->Reserve(400));
  const int64_t before = b.manager->Get(other)->output_tokens;
  Copy(a, b, id, r, 0, 400, 20);
  EXPECT_GE(b.manager->Get(other)->output_tokens - before, 15) << "20 blocks";
}

}  // namespace
}  // namespace riskkv::worker::testing

// The manager at both ends of a move: the fake engine's hash over its cells is the oracle.
#include <thread>

#include "tests/unit/worker/worker_fixture.h"

namespace riskkv::worker::testing {
namespace {

// The request as FINAL would carry it.
IncomingRequest Incoming(const RequestSnapshot& s) { return {s.id, s.params, s.prompt, s.log, s.provenance}; }

// Copies cells [from, to) in blocks.
void Copy(TestWorker& a, TestWorker& b, const std::string& id, ReservationId reservation, int64_t from, int64_t to, int64_t block = 16) {
  const KvLayout& layout = a.manager->facts().fingerprint.layout;
  for (int64_t at = from; at < to; at += block) {
    auto cells = a.manager->Export(id, {at, std::min(at + block, to)}, AllLayers(layout));
    ASSERT_OK(cells);
    ASSERT_OK(b.manager->Append(reservation, *cells));
  }
}

// Pauses on `a` and installs on `b`.
void Prepare(TestWorker& a, TestWorker& b, const std::string& id) {
  ASSERT_OK_AND_ASSIGN(const RequestSnapshot paused, a.manager->Pause(id));
  EXPECT_EQ(paused.state, RequestState::kPaused);
  EXPECT_EQ(paused.n_kv, paused.n_tokens() - 1);
  ASSERT_OK_AND_ASSIGN(const ReservationId r, b.manager->Reserve(paused.n_kv + 8));
  Copy(a, b, id, r, 0, paused.n_kv);
  EXPECT_EQ(b.manager->ReservedLength(r), paused.n_kv);
  ASSERT_OK(b.manager->Install(r, Incoming(paused)));
  b.manager->Release(r);  // taken over: nothing to release
  EXPECT_EQ(b.StateOf(id), RequestState::kIncoming);
}

MoveTarget To(const char* worker, uint64_t epoch, int64_t next_index) {
  return {worker, "127.0.0.1:1", "mig", epoch, next_index};
}

std::vector<Token> Unmoved(RequestParams params, std::vector<Token> prompt) {
  TestWorker w;
  return w.Generate(std::move(params), std::move(prompt)).ids();
}

TEST(Move, GoesOnExactlyAsTheUnmovedRequest) {
  RequestParams params = Greedy(80);
  params.sampling.temperature = 0.7f;
  params.sampling.seed = 3;
  params.sampling.repeat_penalty = 1.1f;
  const std::vector<Token> want = Unmoved(params, Prompt(50));
  TestWorker a(Slow()), b(Slow(absl::Milliseconds(1)));
  const std::string id = a.Admit(params, Prompt(50));
  auto at_a = a.Attach(id);
  Received first = ReadTokens(*at_a, 10);
  ASSERT_OK(a.manager->BeginMove(id, 1));
  Prepare(a, b, id);
  a.manager->AnnounceMoving(id, To("b", 2, 0));
  const int64_t start = a.manager->Get(id)->output_tokens;

  ASSERT_OK(b.manager->Activate(id, 2, start));
  ASSERT_OK(a.manager->MarkMoved(id, To("b", 2, start)));
  const Received rest = ReadAll(*at_a);
  ASSERT_TRUE(rest.moved);
  EXPECT_EQ(rest.moved->owner.worker_id, "b");
  EXPECT_EQ(rest.moved->owner.next_index, start);
  EXPECT_LE(rest.moving.size(), 1u);
  for (const LoggedToken& t : rest.tokens) first.tokens.push_back(t);
  EXPECT_EQ(static_cast<int64_t>(first.tokens.size()), start) << "everything the old owner made is delivered";

  ASSERT_OK(b.manager->AllowDelivery(id));
  const Received second = ReadAll(*b.Attach(id, start, 2));
  for (const LoggedToken& t : second.tokens) {
    EXPECT_EQ(t.epoch, 2u);
    first.tokens.push_back(t);
  }
  EXPECT_EQ(first.ids(), want);
  EXPECT_EQ(second.end->epoch, 2u);
  a.manager->FreeMoved(id);
  a.manager->FreeMoved(id);
  EXPECT_TRUE(a.Idle());
  EXPECT_TRUE(b.Idle());
  EXPECT_TRUE(ReadAll(*a.Attach(id, 3)).moved) << "forwarding stays";
  EXPECT_EQ(ReadAll(*b.Attach(id, 0)).ids(), want) << "the log travelled whole";
}

TEST(Move, WhileDecodingAndInPrefill) {
  const std::vector<Token> want = Unmoved(Greedy(60), Prompt(200));
  ManagerOptions options;
  options.prefill_chunk = options.prefill_chunk_moving = 16;
  TestWorker a(Slow(), options), b;
  const std::string id = a.Admit(Greedy(60), Prompt(200));
  ASSERT_TRUE(Eventually([&] { return a.StateOf(id) == RequestState::kPrefill && a.manager->Get(id)->n_kv >= 32; }));
  ASSERT_OK(a.manager->BeginMove(id, 1));
  ASSERT_OK_AND_ASSIGN(const ReservationId r, b.manager->Reserve(40));
  Copy(a, b, id, r, 0, 32);
  EXPECT_THAT(a.manager->Export(id, {0, 10000}, {0}), HasReason("BAD_RANGE"));
  ASSERT_OK_AND_ASSIGN(const RequestSnapshot paused, a.manager->Pause(id));  // waits for the first token
  EXPECT_GE(paused.log.size(), 1u);
  Copy(a, b, id, r, 32, paused.n_kv);  // more than was reserved: grows, there is room
  ASSERT_OK(b.manager->Install(r, Incoming(paused)));
  const int64_t start = static_cast<int64_t>(paused.log.size());
  ASSERT_OK(b.manager->Activate(id, 2, start));
  ASSERT_OK(b.manager->AllowDelivery(id));
  EXPECT_EQ(ReadAll(*b.Attach(id)).ids(), want);
}

TEST(Move, StopStringBegunAtTheSourceEndsAtTheDestination) {
  auto prepare = [](ScriptedEngine& e) {
    e.texts = {{1, "x"}, {2, "E"}, {3, "N"}, {4, "D"}, {5, "\xE2\x82"}, {6, "\xAC"}};
    e.script = {1, 5, 6, 2, 3, 4, 1, 1, 1};
  };
  for (int64_t cut = 1; cut <= 5; ++cut) {
    TestWorker a(Slow(absl::Milliseconds(3)), {}, prepare), b({}, {}, prepare);
    RequestParams p = Greedy(9);
    p.stop.stop = {"END"};
    const std::string id = a.Admit(p, Prompt(4));
    auto at_a = a.Attach(id);
    Received got = ReadTokens(*at_a, static_cast<std::size_t>(cut));
    ASSERT_OK(a.manager->BeginMove(id, 1));
    auto paused = a.manager->Pause(id);
    if (!paused.ok()) {
      EXPECT_THAT(paused, HasReason("REQUEST_FINISHED"));
      continue;  // the machine was slow: it ended first
    }
    Prepare(a, b, id);
    ASSERT_OK(b.manager->Activate(id, 2, static_cast<int64_t>(paused->log.size())));
    ASSERT_OK(b.manager->AllowDelivery(id));
    const Received all = ReadAll(*b.Attach(id));
    EXPECT_EQ(all.text(), "x\xE2\x82\xAC");
    EXPECT_EQ(all.end->reason, FinishReason::kStop);
    EXPECT_EQ(all.tokens.size(), 6u);
  }
}

TEST(Move, ThereAndBackAgain) {
  const std::vector<Token> want = Unmoved(Greedy(120), Prompt(20));
  TestWorker a(Slow()), b(Slow());
  const std::string id = a.Admit(Greedy(120), Prompt(20));
  auto client = a.Attach(id);
  Received all = ReadTokens(*client, 5);
  TestWorker* from = &a;
  TestWorker* to = &b;
  for (uint64_t epoch = 1; epoch <= 6; ++epoch) {
    ASSERT_OK(from->manager->BeginMove(id, epoch));
    Prepare(*from, *to, id);
    const int64_t start = from->manager->Get(id)->output_tokens;
    ASSERT_OK(to->manager->Activate(id, epoch + 1, start));
    ASSERT_OK(from->manager->MarkMoved(id, To("next", epoch + 1, start)));
    ASSERT_OK(to->manager->AllowDelivery(id));
    if (epoch % 2 == 0) from->manager->FreeMoved(id);  // the other times only once it is on its way back
    const Received part = ReadAll(*client);
    ASSERT_TRUE(part.moved);
    all.tokens.insert(all.tokens.end(), part.tokens.begin(), part.tokens.end());
    client = to->Attach(id, static_cast<int64_t>(all.tokens.size()), epoch + 1);
    if (epoch % 2 == 1) from->manager->FreeMoved(id);
    std::swap(from, to);
    const Received more = ReadTokens(*client, 3);
    all.tokens.insert(all.tokens.end(), more.tokens.begin(), more.tokens.end());
  }
  const Received rest = ReadAll(*client);
  all.tokens.insert(all.tokens.end(), rest.tokens.begin(), rest.tokens.end());
  EXPECT_EQ(all.ids(), want);
  EXPECT_TRUE(a.Idle());
  EXPECT_TRUE(b.Idle());
}

TEST(Move, FreeingTheFormerSelfLeavesTheIncomingOne) {
  TestWorker a(Slow()), b(Slow());
  const std::string id = a.Admit(Greedy(200), Prompt(20));
  auto client = a.Attach(id);
  ReadTokens(*client, 3);
  ASSERT_OK(a.manager->BeginMove(id, 1));
  Prepare(a, b, id);
  const int64_t start = a.manager->Get(id)->output_tokens;
  ASSERT_OK(b.manager->Activate(id, 2, start));
  ASSERT_OK(a.manager->MarkMoved(id, To("b", 2, start)));
  ASSERT_OK(b.manager->AllowDelivery(id));
  ASSERT_OK(b.manager->BeginMove(id, 2));
  Prepare(b, a, id);  // comes back before a has heard RESUMED of the first move
  const int64_t cells = a.manager->Load().cells_used;
  a.manager->FreeMoved(id);
  EXPECT_EQ(a.manager->Load().cells_used, cells - 220);
  EXPECT_EQ(a.StateOf(id), RequestState::kIncoming);
  a.manager->Drop(id);  // aborted: the forwarding is there again
  EXPECT_TRUE(a.Idle());
  EXPECT_EQ(ReadAll(*a.Attach(id)).moved->owner.worker_id, "b");
  ASSERT_OK(b.manager->ResumeHere(id));
}

TEST(Source, BeginMoveRefuses) {
  FakeOptions options = Slow();
  options.n_sequences = 1;
  TestWorker w(options);
  EXPECT_THAT(w.manager->BeginMove("nope", 1), HasReason("UNKNOWN_REQUEST"));
  const std::string id = w.Admit(Greedy(5000), Prompt(5));
  ASSERT_TRUE(Eventually([&] { return w.StateOf(id) == RequestState::kDecoding; }));
  const std::string queued = w.Admit(Greedy(5), Prompt(5));
  EXPECT_THAT(w.manager->BeginMove(queued, 1), HasReason("STATE_NOT_TRANSFERABLE"));
  const absl::Status conflict = w.manager->BeginMove(id, 4);
  EXPECT_THAT(conflict, StatusIs(absl::StatusCode::kAborted, HasSubstr("epoch 1, the caller expects 4")));
  EXPECT_THAT(conflict, HasReason("EPOCH_CONFLICT"));
  EXPECT_THAT(w.manager->Pause(id), StatusIs(absl::StatusCode::kFailedPrecondition)) << "no move is under way";
  ASSERT_OK(w.manager->BeginMove(id, 1));
  EXPECT_THAT(w.manager->BeginMove(id, 1), HasReason("ALREADY_MIGRATING"));
  ASSERT_TRUE(*w.manager->Cancel(id));
  ASSERT_TRUE(Eventually([&] { return w.StateOf(id) == RequestState::kFinished; }));
  EXPECT_THAT(w.manager->Pause(id), HasReason("REQUEST_FINISHED"));
  EXPECT_THAT(w.manager->Export(id, {0, 1}, {0}), HasReason("REQUEST_FINISHED"));
  EXPECT_THAT(w.manager->BeginMove(id, 1), HasReason("REQUEST_FINISHED"));
}

TEST(Source, PauseAndResumeHere) {
  const std::vector<Token> want = Unmoved(Greedy(50), Prompt(10));
  TestWorker w(Slow());
  const std::string id = w.Admit(Greedy(50), Prompt(10));
  auto stream = w.Attach(id);
  Received got = ReadTokens(*stream, 5);
  ASSERT_OK(w.manager->BeginMove(id, 1));
  ASSERT_OK_AND_ASSIGN(const RequestSnapshot paused, w.manager->Pause(id));
  EXPECT_EQ(w.manager->Pause(id)->n_tokens(), paused.n_tokens()) << "paused already";
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(w.manager->Get(id)->n_tokens(), paused.n_tokens()) << "nothing is made while paused";
  EXPECT_THAT(w.manager->Cancel(id), HasReason("ALREADY_MIGRATING"));
  w.clock.Advance(absl::Hours(1));  // no timer acts on a paused request
  w.manager->AnnounceMoving(id, To("b", 2, 0));
  const Received announced = ReadUntil(*stream, [](const Received& r) { return !r.moving.empty(); });
  ASSERT_EQ(announced.moving.size(), 1u);
  EXPECT_EQ(announced.moving[0].candidate.worker_id, "b");
  got.tokens.insert(got.tokens.end(), announced.tokens.begin(), announced.tokens.end());
  EXPECT_EQ(static_cast<int64_t>(got.tokens.size()), paused.output_tokens) << "announced after all tokens";
  ASSERT_OK(w.manager->ResumeHere(id));
  const Received rest = ReadAll(*stream);
  got.tokens.insert(got.tokens.end(), rest.tokens.begin(), rest.tokens.end());
  EXPECT_EQ(got.ids(), want);
  EXPECT_TRUE(rest.moving.empty());
  EXPECT_THAT(w.manager->ResumeHere(id), HasReason("REQUEST_FINISHED"));
}

TEST(Source, RollBackRaisesTheEpoch) {
  const std::vector<Token> want = Unmoved(Greedy(50), Prompt(10));
  TestWorker w(Slow());
  const std::string id = w.Admit(Greedy(50), Prompt(10));
  auto stream = w.Attach(id);
  Received got = ReadTokens(*stream, 5);
  ASSERT_OK(w.manager->BeginMove(id, 1));
  ASSERT_OK_AND_ASSIGN(const RequestSnapshot paused, w.manager->Pause(id));
  ASSERT_OK(w.manager->MarkMoved(id, To("b", 2, paused.output_tokens)));
  ASSERT_OK(w.manager->MarkMoved(id, To("b", 2, paused.output_tokens))) << "told twice";
  EXPECT_THAT(w.manager->Cancel(id), HasReason("NOT_OWNER"));
  const Received moved = ReadAll(*stream);
  got.tokens.insert(got.tokens.end(), moved.tokens.begin(), moved.tokens.end());
  EXPECT_TRUE(moved.moved);
  ASSERT_OK(w.manager->ResumeHere(id, 3));
  const Received rest = ReadAll(*w.Attach(id, paused.output_tokens, 2));
  for (const LoggedToken& t : rest.tokens) EXPECT_EQ(t.epoch, 3u);
  got.tokens.insert(got.tokens.end(), rest.tokens.begin(), rest.tokens.end());
  EXPECT_EQ(got.ids(), want);
  EXPECT_EQ(w.manager->Get(id)->start_index, paused.output_tokens);
}

TEST(Source, AfterFreeMovedItCannotGoOn) {
  TestWorker w(Slow());
  const std::string id = w.Admit(Greedy(50), Prompt(10));
  ASSERT_TRUE(Eventually([&] { return w.StateOf(id) == RequestState::kDecoding; }));
  EXPECT_FALSE(w.manager->MarkMoved(id, To("b", 2, 1)).ok()) << "not paused";
  ASSERT_OK(w.manager->BeginMove(id, 1));
  ASSERT_OK(w.manager->Pause(id));
  ASSERT_OK(w.manager->MarkMoved(id, To("b", 2, 1)));
  EXPECT_FALSE(w.Idle()) << "cells stay until the new owner has resumed";
  w.manager->FreeMoved(id);
  EXPECT_TRUE(w.Idle());
  EXPECT_THAT(w.manager->ResumeHere(id, 3), HasReason("NOT_OWNER"));
  EXPECT_THAT(w.manager->Export(id, {0, 1}, {0}), HasReason("NOT_OWNER"));
  EXPECT_THAT(w.manager->BeginMove(id, 1), HasReason("NOT_OWNER"));
  w.clock.Advance(absl::Minutes(11));
  EXPECT_TRUE(Eventually([&] { return !w.manager->Get(id).ok(); })) << "forwarding ends with the retention";
}

TEST(Source, AnEndWhilePauseWaitsIsReported) {
  TestWorker w(Slow(absl::Milliseconds(5)));
  const std::string id = w.Admit(Greedy(1), Prompt(600));  // its first token is its last
  ASSERT_TRUE(Eventually([&] { return w.StateOf(id) == RequestState::kPrefill; }));
  ASSERT_OK(w.manager->BeginMove(id, 1));
  EXPECT_THAT(w.manager->Pause(id), HasReason("REQUEST_FINISHED"));
}

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

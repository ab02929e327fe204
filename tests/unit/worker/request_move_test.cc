// The manager at both ends of a move: the fake engine's hash over its cells is the oracle.
#include "tests/unit/worker/move_steps.h"

namespace riskkv::worker::testing {
namespace {

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

}  // namespace
}  // namespace riskkv::worker::testing

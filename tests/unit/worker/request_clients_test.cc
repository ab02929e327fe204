// Attach, supersede, detach, cancel, acknowledge, retention.
#include <thread>

#include "tests/unit/worker/worker_fixture.h"

namespace riskkv::worker::testing {
namespace {

TEST(Attach, FromAnyIndexGivesEveryTokenOnce) {
  TestWorker w;
  const std::string id = w.Admit(Greedy(20), Prompt(5));
  const std::vector<Token> all = ReadAll(*w.Attach(id)).ids();
  ASSERT_EQ(all.size(), 20u);
  for (int from = 0; from <= 20; ++from) {
    const Received got = ReadAll(*w.Attach(id, from));
    EXPECT_EQ(got.ids(), std::vector<Token>(all.begin() + from, all.end()));
    ASSERT_TRUE(got.end);
    EXPECT_EQ(got.end->output_tokens, 20);
  }
  EXPECT_THAT(w.manager->Attach(id, 21, 0), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("next_index is 21")));
  EXPECT_THAT(w.manager->Attach(id, -1, 0), HasReason("BAD_RANGE"));
}

TEST(Attach, UnknownAndStale) {
  TestWorker w;
  EXPECT_THAT(w.manager->Attach("nope", 0, 0), StatusIs(absl::StatusCode::kNotFound, HasSubstr("nope")));
  EXPECT_THAT(w.manager->Attach("nope", 0, 0), HasReason("UNKNOWN_REQUEST"));
  const std::string id = w.Admit(Greedy(2), Prompt(5));
  auto stale = w.manager->Attach(id, 0, 2);
  EXPECT_THAT(stale, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("epoch 1 here, the client has seen 2")));
  EXPECT_THAT(stale, HasReason("STALE_FENCE"));
}

TEST(Attach, TheSecondSupersedesTheFirst) {
  TestWorker w(Slow());
  const std::string id = w.Admit(Greedy(60), Prompt(5));
  auto first = w.Attach(id);
  ReadTokens(*first, 3);
  auto second = w.Attach(id, 3);
  EXPECT_TRUE(ReadAll(*first).superseded);
  EXPECT_TRUE(absl::IsOutOfRange(first->Next(absl::ZeroDuration()).status()));
  first.reset();  // does not detach the second
  w.clock.Advance(absl::Hours(1));
  const Received got = ReadAll(*second);
  EXPECT_EQ(got.tokens.size(), 57u);
  EXPECT_EQ(got.tokens.front().index, 3);
  EXPECT_EQ(got.end->reason, FinishReason::kLength);
}

TEST(Attach, ASlowReaderMissesNothing) {
  TestWorker w;
  auto stream = w.Attach(w.Admit(Greedy(300), Prompt(5)));
  Received got;
  while (!got.end) {
    absl::SleepFor(absl::Microseconds(300));
    auto event = stream->Next(absl::Seconds(5));
    ASSERT_OK(event);
    if (auto* t = std::get_if<LoggedToken>(&*event)) {
      EXPECT_EQ(t->index, static_cast<int64_t>(got.tokens.size()));
      got.tokens.push_back(*t);
    } else {
      got.end = std::get<EndEvent>(*event);
    }
  }
  EXPECT_EQ(got.tokens.size(), 300u);
  EXPECT_TRUE(absl::IsOutOfRange(stream->Next(absl::ZeroDuration()).status()));
}

TEST(Attach, NextTimesOutWithoutEvents) {
  TestWorker w(Slow(absl::Milliseconds(500)));
  auto stream = w.Attach(w.Admit(Greedy(2), Prompt(5)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(stream->Next(absl::Milliseconds(5)).status()));
}

TEST(Detach, GraceThenCancelled) {
  TestWorker w(Slow());
  const std::string id = w.Admit(Greedy(5000), Prompt(5));
  ReadTokens(*w.Attach(id), 2);  // detaches
  w.clock.Advance(absl::Seconds(29));
  const int64_t before = w.manager->Get(id)->output_tokens;
  ASSERT_TRUE(Eventually([&] { return w.manager->Get(id)->output_tokens > before + 3; })) << "decoding goes on";
  w.clock.Advance(absl::Seconds(2));
  ASSERT_TRUE(Eventually([&] { return w.StateOf(id) == RequestState::kFinished; }));
  EXPECT_EQ(w.manager->Get(id)->finish, FinishReason::kCancelled);
  EXPECT_TRUE(w.Idle());
}

TEST(Detach, ComingBackStopsTheGrace) {
  TestWorker w(Slow());
  const std::string id = w.Admit(Greedy(100), Prompt(5));
  ReadTokens(*w.Attach(id), 2);
  w.clock.Advance(absl::Seconds(20));
  auto back = w.Attach(id, 2);
  w.clock.Advance(absl::Minutes(5));
  EXPECT_EQ(ReadAll(*back).tokens.size(), 98u);
}

TEST(Cancel, RunningQueuedAndFinished) {
  FakeOptions options = Slow();
  options.n_sequences = 1;
  TestWorker w(options);
  const std::string running = w.Admit(Greedy(5000), Prompt(5));
  auto stream = w.Attach(running);
  ReadTokens(*stream, 1);
  const std::string queued = w.Admit(Greedy(5), Prompt(5));
  EXPECT_TRUE(*w.manager->Cancel(queued));
  EXPECT_TRUE(*w.manager->Cancel(running));
  const Received got = ReadAll(*stream);
  ASSERT_TRUE(got.end);
  EXPECT_EQ(got.end->reason, FinishReason::kCancelled);
  EXPECT_EQ(ReadAll(*w.Attach(queued)).end->reason, FinishReason::kCancelled);
  ASSERT_TRUE(Eventually([&] { return w.Idle(); })) << "the stream ends first";
  EXPECT_FALSE(*w.manager->Cancel(running));
  EXPECT_THAT(w.manager->Cancel("nope"), HasReason("UNKNOWN_REQUEST"));
}

// A prefill step of a long prompt takes seconds on a small machine: the client does not wait for it.
TEST(Cancel, AStreamEndsWhileAStepRuns) {
  TestWorker w(Slow(absl::Milliseconds(600)));
  const std::string id = w.Admit(Greedy(50), Prompt(10));
  auto stream = w.Attach(id);
  ASSERT_TRUE(Eventually([&] { return w.StateOf(id) == RequestState::kPrefill; }));
  const absl::Time start = absl::Now();
  EXPECT_TRUE(*w.manager->Cancel(id));
  const Received got = ReadAll(*stream);
  EXPECT_LT(absl::Now() - start, absl::Milliseconds(400)) << "less than the step";
  ASSERT_TRUE(got.end);
  EXPECT_EQ(got.end->reason, FinishReason::kCancelled);
  ASSERT_TRUE(Eventually([&] { return w.StateOf(id) == RequestState::kFinished; }));
  EXPECT_TRUE(w.Idle());
  EXPECT_EQ(w.manager->Get(id)->log.size(), 0u) << "what the step drew came after the end";
}

TEST(Cancel, ABacklogIsNotReadOutFirst) {
  TestWorker w(Slow());
  const std::string id = w.Admit(Greedy(500), Prompt(10));
  auto stream = w.Attach(id);
  ASSERT_TRUE(Eventually([&] { return w.manager->Get(id)->output_tokens > 20; }));
  EXPECT_TRUE(*w.manager->Cancel(id));
  EXPECT_TRUE(ReadAll(*stream).tokens.empty());
  ASSERT_TRUE(Eventually([&] { return w.StateOf(id) == RequestState::kFinished; }));
  EXPECT_GT(ReadAll(*w.Attach(id)).tokens.size(), 20u) << "who attaches to the cancelled request reads what there is";
}

TEST(Acknowledge, BeforeACancelledRequestHasEndedGoesWithIt) {
  TestWorker w(Slow());
  const std::string id = w.Admit(Greedy(500), Prompt(10));
  ReadTokens(*w.Attach(id), 2);
  ASSERT_OK(w.manager->BeginMove(id, 1));
  ASSERT_OK(w.manager->Pause(id));
  EXPECT_TRUE(*w.manager->Cancel(id));
  EXPECT_OK(w.manager->Acknowledge(id));
  ASSERT_OK(w.manager->ResumeHere(id));
  ASSERT_TRUE(Eventually([&] {
    w.clock.Advance(absl::Milliseconds(60));
    return !w.manager->Get(id).ok();
  }));
}

TEST(Retention, AcknowledgedOrOld) {
  TestWorker w;
  const std::string a = w.Admit(Greedy(3), Prompt(5)), b = w.Admit(Greedy(3), Prompt(5));
  ReadAll(*w.Attach(a));
  ReadAll(*w.Attach(b));
  EXPECT_OK(w.manager->Acknowledge(a));
  EXPECT_THAT(w.manager->Get(a), HasReason("UNKNOWN_REQUEST"));
  w.clock.Advance(absl::Minutes(9));
  absl::SleepFor(absl::Milliseconds(60));
  EXPECT_OK(w.manager->Get(b));
  w.clock.Advance(absl::Minutes(2));
  EXPECT_TRUE(Eventually([&] { return !w.manager->Get(b).ok(); }));
}

TEST(Retention, TheOldestGoWhenThereAreTooMany) {
  ManagerOptions options;
  options.max_ended = 3;
  TestWorker w({}, options);
  std::vector<std::string> ids;
  for (int i = 0; i < 6; ++i) {
    ids.push_back(w.Admit(Greedy(1), Prompt(5)));
    ReadAll(*w.Attach(ids.back()));
    w.clock.Advance(absl::Seconds(1));
  }
  EXPECT_TRUE(Eventually([&] { return w.manager->List(true).size() == 3; }));
  EXPECT_OK(w.manager->Get(ids.back()));
}

TEST(Acknowledge, NotWhileItRuns) {
  TestWorker w(Slow());
  const std::string id = w.Admit(Greedy(500), Prompt(5));
  EXPECT_THAT(w.manager->Acknowledge(id), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has not ended")));
}

TEST(Look, ListAndGet) {
  TestWorker w(Slow());
  const std::string done = w.Admit(Greedy(2), Prompt(5));
  ReadAll(*w.Attach(done));
  const std::string open = w.Admit(Greedy(500), Prompt(8));
  ASSERT_TRUE(Eventually([&] { return w.StateOf(open) == RequestState::kDecoding; }));
  ASSERT_EQ(w.manager->List(false).size(), 1u);
  EXPECT_EQ(w.manager->List(false)[0].id, open);
  EXPECT_EQ(w.manager->List(true).size(), 2u);
  const RequestSnapshot s = w.manager->Get(open).value();
  EXPECT_EQ(s.prompt.size(), 8u);
  EXPECT_EQ(s.n_tokens(), 8 + static_cast<int64_t>(s.log.size()));
  EXPECT_EQ(s.n_kv, s.n_tokens() - 1) << "the newest token has no cell";
  EXPECT_EQ(open.rfind("b00t-", 0), 0u) << "ids contain the boot id";
}

TEST(Load, CountsAndSeesProgress) {
  FakeOptions options = Slow();
  options.n_cells = 1000;
  TestWorker w(options);
  const std::string id = w.Admit(Greedy(90), Prompt(10));
  ASSERT_TRUE(Eventually([&] { return w.StateOf(id) == RequestState::kDecoding; }));
  const ManagerLoad load = w.manager->Load();
  EXPECT_EQ(load.cells_total, 1000);
  EXPECT_EQ(load.cells_used, 100);
  EXPECT_EQ(load.slots_used, 1);
  EXPECT_EQ(load.running, 1);
  EXPECT_EQ(load.no_step, absl::ZeroDuration());
}

}  // namespace
}  // namespace riskkv::worker::testing

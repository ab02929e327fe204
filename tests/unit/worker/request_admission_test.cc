// Admission, batching, ends, errors of the engine, stopping.
#include <thread>

#include "common/engine/fake/fake_model.h"
#include "tests/unit/worker/worker_fixture.h"

namespace riskkv::worker::testing {
namespace {

TEST(Admission, RefusesWhatMakesNoSense) {
  TestWorker w;
  auto refused = [&](RequestParams params, std::vector<Token> prompt, const std::string& says) {
    auto id = w.manager->Admit(std::move(params), std::move(prompt));
    EXPECT_THAT(id, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(says)));
    EXPECT_THAT(id, HasReason("BAD_ARGUMENT"));
  };
  refused(Greedy(4), {}, "0 tokens");
  refused(Greedy(4), {1, 2, 99999}, "token 2 is 99999");
  refused(Greedy(4), {-1}, "token 0 is -1");
  refused(Greedy(0), {1}, "max_tokens is 0");
  refused(Greedy(-3), {1}, "max_tokens is -3");
  refused(Greedy(4), std::vector<Token>(1 << 20, 5), "1048576");
  RequestParams p = Greedy(4);
  p.stop.min_tokens = 5;
  refused(p, {1}, "min_tokens is 5");
  p = Greedy(4);
  p.stop.stop = {"ok", ""};
  refused(p, {1}, "stop[1]");
  p.stop.stop = {"\xFF"};
  refused(p, {1}, "UTF-8");
  p = Greedy(4);
  p.sampling.temperature = -1;
  refused(p, {1}, "temperature");
}

TEST(Admission, WhatNeverFitsIsRefusedWithTheNumbers) {
  FakeOptions options;
  options.n_cells = 64;
  TestWorker w(options);
  auto id = w.manager->Admit(Greedy(60), Prompt(10));
  EXPECT_THAT(id, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("70 KV cells, this worker has 64")));
  EXPECT_THAT(id, HasReason("NO_BLOCKS"));
}

TEST(Admission, WaitsForCellsAndKeepsTheOrder) {
  FakeOptions options = Slow();
  options.n_cells = 100;
  TestWorker w(options);
  const std::string a = w.Admit(Greedy(50), Prompt(10));
  ASSERT_TRUE(Eventually([&] { return w.StateOf(a) == RequestState::kDecoding; }));
  EXPECT_EQ(w.manager->Load().cells_used, 60);
  const std::string b = w.Admit(Greedy(40), Prompt(10));  // 50 cells: not beside a
  const std::string c = w.Admit(Greedy(10), Prompt(10));  // 20 would fit, but b came first
  auto stream_c = w.Attach(c);
  EXPECT_EQ(w.manager->Load().queued, 2);
  EXPECT_EQ(ReadAll(*w.Attach(a)).tokens.size(), 50u);
  EXPECT_TRUE(Eventually([&] { return w.StateOf(b) == RequestState::kDecoding || w.StateOf(b) == RequestState::kFinished; }));
  EXPECT_EQ(ReadAll(*stream_c).tokens.size(), 10u);
  EXPECT_EQ(ReadAll(*w.Attach(b)).tokens.size(), 40u);
  EXPECT_TRUE(w.Idle());
}

TEST(Admission, QueueFullNamesItsLength) {
  ManagerOptions options;
  options.max_queue = 2;
  FakeOptions engine = Slow();
  engine.n_sequences = 1;
  TestWorker w(engine, options);
  const std::string running = w.Admit(Greedy(500), Prompt(3));
  ASSERT_TRUE(Eventually([&] { return w.StateOf(running) == RequestState::kDecoding; }));
  w.Admit(Greedy(1), Prompt(3));
  w.Admit(Greedy(1), Prompt(3));
  auto refused = w.manager->Admit(Greedy(1), Prompt(3));
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("2 requests wait, at most 2")));
  EXPECT_THAT(refused, HasReason("QUEUE_FULL"));
}

TEST(Batching, TogetherAsAlone) {
  std::vector<std::vector<Token>> alone;
  for (int i = 0; i < 4; ++i) {
    TestWorker w;
    alone.push_back(w.Generate(Greedy(30), Prompt(20 + 30 * i, static_cast<Token>('a' + i))).ids());
  }
  ManagerOptions options;
  options.prefill_chunk = 16;
  TestWorker w(Slow(absl::Milliseconds(1)), options);
  std::vector<std::unique_ptr<Subscription>> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(w.Attach(w.Admit(Greedy(30), Prompt(20 + 30 * i, static_cast<Token>('a' + i)))));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ReadAll(*streams[static_cast<std::size_t>(i)]).ids(), alone[static_cast<std::size_t>(i)]);
  bool shared = false;
  for (const auto& shape : w.engine->shapes()) {
    shared |= shape.size() > 1;
    int64_t prefill = 0;
    for (int64_t n : shape) prefill += n > 1 ? n : 0;
    EXPECT_LE(prefill, 16) << "the chunk bounds all prompt tokens of a step";
  }
  EXPECT_TRUE(shared);
}

TEST(Batching, TheSameRequestsGiveTheSameBatches) {
  auto shapes = [] {
    ManagerOptions options;
    options.prefill_chunk = 8;
    FakeOptions engine;
    engine.n_sequences = 1;
    TestWorker w(engine, options);
    w.Generate(Greedy(5), Prompt(30));
    return w.engine->shapes();
  };
  const auto first = shapes();
  EXPECT_EQ(first, shapes());
  EXPECT_EQ(first.front(), std::vector<int64_t>{8});
  EXPECT_EQ(first.size(), 4u + 4u) << "30 prompt tokens in 4 chunks, then 4 more tokens";
}

TEST(Batching, SampledDrawsDependOnSeedOnly) {
  RequestParams p = Greedy(20);
  p.sampling.temperature = 0.8f;
  p.sampling.seed = 7;
  TestWorker w;
  const auto first = w.Generate(p, Prompt(9)).ids();
  EXPECT_EQ(w.Generate(p, Prompt(9)).ids(), first);
  p.sampling.seed = 8;
  EXPECT_NE(w.Generate(p, Prompt(9)).ids(), first);
}

TEST(Ends, MaxTokens) {
  TestWorker w;
  const Received got = w.Generate(Greedy(7), Prompt(5));
  ASSERT_TRUE(got.end);
  EXPECT_EQ(got.tokens.size(), 7u);
  EXPECT_EQ(got.end->reason, FinishReason::kLength);
  EXPECT_EQ(got.end->output_tokens, 7);
  EXPECT_EQ(got.end->epoch, 1u);
  for (std::size_t i = 0; i < got.tokens.size(); ++i) {
    EXPECT_EQ(got.tokens[i].index, static_cast<int64_t>(i));
    EXPECT_EQ(got.tokens[i].epoch, 1u);
  }
  EXPECT_TRUE(w.Idle());
}

TEST(Ends, EndOfText) {
  FakeOptions options;
  options.eos_after = 4;
  TestWorker w(options);
  const Received got = w.Generate(Greedy(50), Prompt(5));
  ASSERT_TRUE(got.end);
  EXPECT_EQ(got.end->reason, FinishReason::kStop);
  ASSERT_EQ(got.tokens.size(), 5u);
  EXPECT_EQ(got.tokens.back().token, kFakeEos);
  EXPECT_EQ(got.tokens.back().text, "");
}

TEST(Ends, MinTokensAndIgnoreEosForbidTheEnd) {
  FakeOptions options;
  options.eos_after = 4;
  TestWorker w(options);
  RequestParams p = Greedy(50);
  p.stop.min_tokens = 10;
  EXPECT_EQ(w.Generate(p, Prompt(5)).tokens.size(), 10u);
  p = Greedy(20);
  p.stop.ignore_eos = true;
  const Received got = w.Generate(p, Prompt(5));
  EXPECT_EQ(got.tokens.size(), 20u);
  EXPECT_EQ(got.end->reason, FinishReason::kLength);
}

TEST(Ends, StopStringAcrossTokensAndCharacters) {
  auto prepare = [](ScriptedEngine& e) {
    e.texts = {{1, "one "}, {2, "\xE2"}, {3, "\x82"}, {4, "\xAC E"}, {5, "N"}, {6, "D tail"}};
    e.script = {1, 2, 3, 4, 5, 6, 1, 1};
  };
  TestWorker w({}, {}, prepare);
  RequestParams p = Greedy(8);
  p.stop.stop = {"END"};
  const Received got = w.Generate(p, Prompt(5));
  ASSERT_TRUE(got.end);
  EXPECT_EQ(got.end->reason, FinishReason::kStop);
  EXPECT_EQ(got.tokens.size(), 6u);
  EXPECT_EQ(got.text(), "one \xE2\x82\xAC ");
  EXPECT_EQ(got.end->tail_text, "");
  p.stop.max_tokens = 5;  // ends while "EN" is held back
  const Received cut = w.Generate(p, Prompt(5));
  EXPECT_EQ(cut.end->reason, FinishReason::kLength);
  EXPECT_EQ(cut.text(), "one \xE2\x82\xAC ");
  EXPECT_EQ(cut.end->tail_text, "EN");
}

TEST(Ends, LogprobsCarryTheirTexts) {
  TestWorker w;
  RequestParams p = Greedy(2);
  p.sampling.n_logprobs = 3;
  const Received got = w.Generate(p, Prompt(5));
  ASSERT_EQ(got.tokens.size(), 2u);
  ASSERT_EQ(got.tokens[0].top.size(), 3u);
  EXPECT_EQ(got.tokens[0].top[0].token, got.tokens[0].token);
  EXPECT_FALSE(got.tokens[0].top[0].text.empty());
  EXPECT_LT(got.tokens[0].logprob, 0);
}

TEST(EngineFailure, EndsTheRequestItHitAndNoOther) {
  TestWorker w(Slow(), {}, [](ScriptedEngine& e) { e.poison = 13; });
  auto good = w.Attach(w.Admit(Greedy(40), Prompt(5)));
  const Received bad = w.Generate(Greedy(40), {1, 2, 13});
  ASSERT_TRUE(bad.end);
  EXPECT_EQ(bad.end->reason, FinishReason::kError);
  EXPECT_THAT(bad.end->error, StatusIs(absl::StatusCode::kInternal, HasSubstr("poisoned")));
  EXPECT_THAT(bad.end->error, HasReason("ENGINE_FAILED"));
  const Received got = ReadAll(*good);
  EXPECT_EQ(got.tokens.size(), 40u);
  EXPECT_EQ(got.end->reason, FinishReason::kLength);
  EXPECT_EQ(w.Generate(Greedy(3), Prompt(4)).tokens.size(), 3u) << "the next request is served";
  EXPECT_TRUE(w.Idle());
}

TEST(EngineFailure, OfOneStepIsHealedByGoingOneByOne) {
  TestWorker w(Slow());
  auto a = w.Attach(w.Admit(Greedy(30), Prompt(5)));
  auto b = w.Attach(w.Admit(Greedy(30), Prompt(6)));
  ReadTokens(*a, 2);
  ReadTokens(*b, 2);
  w.engine->fake->InjectFault(FakeFault::kStep, absl::InternalError("once"));
  EXPECT_EQ(ReadAll(*a).end->reason, FinishReason::kLength);
  EXPECT_EQ(ReadAll(*b).end->reason, FinishReason::kLength);
}

TEST(EngineFailure, OfOpeningASequence) {
  TestWorker w;
  w.engine->fake->InjectFault(FakeFault::kOpen, absl::InternalError("no memory"));
  EXPECT_THAT(w.Generate(Greedy(3), Prompt(4)).end->error, HasReason("ENGINE_FAILED"));
  EXPECT_TRUE(w.Idle());
}

TEST(Stop, EndsOpenSubscriptionsAndWaitingCalls) {
  TestWorker w(Slow());
  auto running = w.Attach(w.Admit(Greedy(5000), Prompt(4)));
  ReadTokens(*running, 1);
  w.manager->Stop();
  const Received got = ReadAll(*running);
  ASSERT_TRUE(got.end);
  EXPECT_EQ(got.end->reason, FinishReason::kError);
  EXPECT_THAT(got.end->error, HasReason("NOT_READY"));
  EXPECT_THAT(w.manager->Reserve(4), HasReason("NOT_READY"));
  EXPECT_THAT(w.manager->Admit(Greedy(1), Prompt(1)), HasReason("NOT_READY"));
  w.manager->FreeMoved("nothing");
  w.manager->Drop("nothing");
  w.manager->Stop();
}

TEST(Stop, DestructionWakesABlockedReader) {
  TestWorker w(Slow(absl::Seconds(5)));  // a step is interrupted, not waited for
  auto stream = w.Attach(w.Admit(Greedy(10), Prompt(4)));
  Received got;
  std::thread reader([&] { got = ReadAll(*stream); });
  absl::SleepFor(absl::Milliseconds(20));
  const absl::Time begin = absl::Now();
  w.manager.reset();
  reader.join();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(3));
  ASSERT_TRUE(got.end);
  EXPECT_EQ(got.end->reason, FinishReason::kError);
}

}  // namespace
}  // namespace riskkv::worker::testing

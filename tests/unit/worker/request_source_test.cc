// The manager at the source of a move.
#include "tests/unit/worker/move_steps.h"

namespace riskkv::worker::testing {
namespace {

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

// Who may end it is being decided; the wish must not be lost when the answer is "here".
TEST(Source, CancelOfAPausedRequestEndsItIfItGoesOnHere) {
  TestWorker w(Slow());
  const std::string id = w.Admit(Greedy(500), Prompt(10));
  auto stream = w.Attach(id);
  ReadTokens(*stream, 5);
  ASSERT_OK(w.manager->BeginMove(id, 1));
  ASSERT_OK(w.manager->Pause(id));
  EXPECT_TRUE(*w.manager->Cancel(id));
  EXPECT_EQ(w.StateOf(id), RequestState::kPaused);
  const Received got = ReadAll(*stream);
  ASSERT_TRUE(got.end) << "the stream does not wait for the decision";
  EXPECT_EQ(got.end->reason, FinishReason::kCancelled);
  ASSERT_OK(w.manager->ResumeHere(id));
  ASSERT_TRUE(Eventually([&] { return w.StateOf(id) == RequestState::kFinished; }));
  EXPECT_EQ(w.manager->Get(id)->finish, FinishReason::kCancelled);
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

}  // namespace
}  // namespace riskkv::worker::testing

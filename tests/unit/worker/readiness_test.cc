#include "services/worker/core/readiness.h"

#include <atomic>

#include "tests/unit/worker/worker_fixture.h"

namespace riskkv::worker::testing {
namespace {

constexpr absl::Duration kStuckAfter = absl::Seconds(30);

struct ReadyWorker : TestWorker {
  explicit ReadyWorker(FakeOptions options = Slow(), const std::function<void(ScriptedEngine&)>& prepare = nullptr)
      : TestWorker(options, {}, prepare) {}
  Readiness readiness{{kStuckAfter}, manager.get()};
  // Long enough, with the loop's own turns in between.
  bool ServesAfterALongTime() {
    for (int i = 0; i < 5; ++i) {
      clock.Advance(kStuckAfter / 4);
      absl::SleepFor(absl::Milliseconds(60));  // idle turns come every 20 ms
    }
    return readiness.WhyNot().empty();
  }
};

TEST(Readiness, AnIdleAndAWorkingLoopServe) {
  ReadyWorker w;
  EXPECT_TRUE(w.ServesAfterALongTime());
  const std::string id = w.Admit(Greedy(5000), Prompt(10));
  auto stream = w.Attach(id);
  ReadTokens(*stream, 3);
  EXPECT_TRUE(w.ServesAfterALongTime());
}

TEST(Readiness, AStepThatHangsStopsServingUntilTheNextOne) {
  std::atomic<bool> hang{false};
  ReadyWorker w(Slow(), [&](ScriptedEngine& e) {
    e.before_step = [&] {
      while (hang) absl::SleepFor(absl::Milliseconds(1));
    };
  });
  const std::string id = w.Admit(Greedy(5000), Prompt(10));
  auto stream = w.Attach(id);
  ReadTokens(*stream, 3);
  hang = true;
  absl::SleepFor(absl::Milliseconds(50));  // the step that was under way is over
  w.clock.Advance(kStuckAfter - absl::Seconds(1));
  EXPECT_EQ(w.readiness.WhyNot(), "");
  w.clock.Advance(absl::Seconds(1));
  EXPECT_THAT(w.readiness.WhyNot(), HasSubstr("no step for 30s"));
  hang = false;
  EXPECT_TRUE(Eventually([&] { return w.readiness.WhyNot().empty(); }));
}

TEST(Readiness, APoolThatGivesNothingBackStopsServingUntilItDoes) {
  FakeOptions options = Slow();
  options.n_cells = 256;
  ReadyWorker w(options);
  ASSERT_OK_AND_ASSIGN(const ReservationId all, w.manager->Reserve(250));
  EXPECT_TRUE(w.ServesAfterALongTime()) << "a full pool that nobody waits for";
  const std::string waiting = w.Admit(Greedy(20), Prompt(10));
  auto stream = w.Attach(waiting);  // or it would be cancelled after the grace
  absl::SleepFor(absl::Milliseconds(60));
  w.clock.Advance(kStuckAfter - absl::Seconds(1));
  EXPECT_EQ(w.readiness.WhyNot(), "");
  EXPECT_FALSE(w.ServesAfterALongTime());
  EXPECT_THAT(w.readiness.WhyNot(), HasSubstr("1 requests have waited"));
  w.manager->Release(all);
  EXPECT_TRUE(Eventually([&] { return w.readiness.WhyNot().empty(); }));
  EXPECT_TRUE(Eventually([&] { return w.StateOf(waiting) == RequestState::kFinished; }));
}

TEST(Readiness, AFullPoolThatDecodesServes) {
  FakeOptions options = Slow();
  options.n_cells = 5100;
  ReadyWorker w(options);
  const std::string runs = w.Admit(Greedy(5000), Prompt(10));
  auto stream = w.Attach(runs);
  ReadTokens(*stream, 1);
  auto waits = w.Attach(w.Admit(Greedy(500), Prompt(10)));
  EXPECT_TRUE(w.ServesAfterALongTime());
  EXPECT_EQ(w.manager->Load().queued, 1);
}

TEST(ReadinessWatch, TellsOfEachChange) {
  FakeOptions options = Slow();
  options.n_cells = 256;
  ReadyWorker w(options);
  std::atomic<int> told{0};
  std::atomic<bool> serving{false};
  ReadinessWatch watch(&w.readiness, absl::Milliseconds(1),
                       [&](bool now) {
                         serving = now;
                         ++told;
                       },
                       NullLogger());
  ASSERT_TRUE(Eventually([&] { return serving.load(); }));
  ASSERT_OK_AND_ASSIGN(const ReservationId all, w.manager->Reserve(250));
  auto waits = w.Attach(w.Admit(Greedy(20), Prompt(10)));
  absl::SleepFor(absl::Milliseconds(60));
  w.clock.Advance(2 * kStuckAfter);
  ASSERT_TRUE(Eventually([&] { return !serving; }));
  EXPECT_EQ(watch.times_stuck(), 1);
  w.manager->Release(all);
  ASSERT_TRUE(Eventually([&] { return serving.load(); }));
  EXPECT_EQ(told, 3);
  watch.Stop();
  watch.Stop();
}

}  // namespace
}  // namespace riskkv::worker::testing

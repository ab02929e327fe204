#include "services/worker/core/decode_loop.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::worker {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;

TEST(DecodeLoop, CallsRunOnTheLoopAndReturnTheirResult) {
  DecodeLoop loop([] { return false; });
  loop.Start();
  const auto here = std::this_thread::get_id();
  auto id = loop.Call([] { return absl::StatusOr<std::thread::id>(std::this_thread::get_id()); });
  ASSERT_OK(id);
  EXPECT_NE(*id, here);
  EXPECT_THAT(loop.Call([] { return absl::NotFoundError("x"); }), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(loop.Run([&] { EXPECT_OK(loop.Run([] {})); })) << "a call may call";
}

TEST(DecodeLoop, TurnsGoOnBetweenCalls) {
  std::atomic<int> turns{0};
  DecodeLoop loop([&] {
    ++turns;
    return true;
  });
  loop.Start();
  // Each call is longer than the budget: between any two there is a turn.
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] { EXPECT_OK(loop.Run([] { absl::SleepFor(DecodeLoop::kCallBudget * 2); })); });
  }
  const int before = turns;
  for (std::thread& t : callers) t.join();
  EXPECT_GE(turns - before, 3);
}

TEST(DecodeLoop, StopRefusesWaitingAndLaterCalls) {
  std::atomic<bool> entered{false}, go{false};
  DecodeLoop loop([] { return false; });
  loop.Start();
  std::thread busy([&] {
    EXPECT_OK(loop.Run([&] {
      entered = true;
      while (!go) absl::SleepFor(absl::Milliseconds(1));
    }));
  });
  while (!entered) absl::SleepFor(absl::Milliseconds(1));
  std::atomic<int> refused{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      absl::Status s = loop.Run([] { FAIL() << "ran after Stop"; });
      EXPECT_THAT(s, StatusIs(absl::StatusCode::kUnavailable));
      EXPECT_THAT(s, HasReason("NOT_READY"));
      ++refused;
    });
  }
  std::thread stop([&] { loop.Stop(); });
  absl::SleepFor(absl::Milliseconds(20));
  go = true;
  for (std::thread& t : callers) t.join();
  busy.join();
  stop.join();
  EXPECT_EQ(refused, 8);
  EXPECT_THAT(loop.Run([] {}), HasReason("NOT_READY"));
}

TEST(DecodeLoop, NeverStartedEndsToo) { DecodeLoop loop([] { return false; }); }

}  // namespace
}  // namespace riskkv::worker

// A cancel reaches whoever owns the request, however long that cannot be reached.
#include "services/worker/core/cancel_relay.h"

#include <atomic>

#include "tests/unit/worker/worker_fixture.h"

namespace riskkv::worker::testing {
namespace {

class ScriptedPeers : public CancelPeers {
 public:
  absl::Status TellCoordinator(const std::string&, Cancellation*) override {
    ++coordinator_calls;
    return coordinator_away ? absl::UnavailableError("away") : absl::OkStatus();
  }
  absl::Status TellOwner(const std::string& address, const std::string&, Cancellation*) override {
    ++owner_calls;
    if (owner_away) return absl::UnavailableError("away");
    MutexLock lock(mu_);
    told_ = address;
    return owner_answer;
  }
  std::string told() {
    MutexLock lock(mu_);
    return told_;
  }
  std::atomic<bool> coordinator_away{false}, owner_away{false};
  std::atomic<int> coordinator_calls{0}, owner_calls{0};
  absl::Status owner_answer;  // set before the first call

 private:
  Mutex mu_;
  std::string told_ ABSL_GUARDED_BY(mu_);
};

class CancelRelayTest : public ::testing::Test {
 protected:
  CancelRelayTest()
      : id_(worker_.Admit(Greedy(5000), Prompt(10))),
        stream_(worker_.Attach(id_)),
        relay_({.first_retry = absl::Milliseconds(1), .last_retry = absl::Milliseconds(5)}, worker_.manager.get(), &peers_, &real_, NullLogger()) {
    ReadTokens(*stream_, 3);
  }
  void Pause() {
    ASSERT_OK(worker_.manager->BeginMove(id_, 1));
    ASSERT_OK(worker_.manager->Pause(id_));
  }
  void MoveAway() {
    ASSERT_OK(worker_.manager->MarkMoved(id_, {"b", "host:b", "m", 2, worker_.manager->Get(id_)->output_tokens}));
  }
  void ExpectStreamEnds() {
    const Received got = ReadAll(*stream_);
    ASSERT_TRUE(got.end);
    EXPECT_EQ(got.end->reason, FinishReason::kCancelled);
  }

  TestWorker worker_{Slow()};
  RealClock real_;
  ScriptedPeers peers_;
  const std::string id_;
  std::unique_ptr<Subscription> stream_;
  CancelRelay relay_;
};

TEST_F(CancelRelayTest, ARequestThatRunsHereConcernsNobodyElse) {
  EXPECT_TRUE(*relay_.Cancel(id_));
  ExpectStreamEnds();
  ASSERT_TRUE(Eventually([&] { return relay_.pending() == 0; }));
  EXPECT_EQ(peers_.coordinator_calls + peers_.owner_calls, 0);
  EXPECT_FALSE(*relay_.Cancel(id_)) << "it has ended";
  EXPECT_THAT(relay_.Cancel("nope"), HasReason("UNKNOWN_REQUEST"));
}

TEST_F(CancelRelayTest, OfAPausedOneTheCoordinatorIsToldUntilItHears) {
  Pause();
  peers_.coordinator_away = true;
  EXPECT_TRUE(*relay_.Cancel(id_));
  ExpectStreamEnds();
  ASSERT_TRUE(Eventually([&] { return peers_.coordinator_calls > 3; }));
  peers_.coordinator_away = false;
  const int before = peers_.coordinator_calls;
  ASSERT_TRUE(Eventually([&] { return peers_.coordinator_calls > before; }));
  EXPECT_EQ(relay_.pending(), 1) << "until the decision is known";
  ASSERT_OK(worker_.manager->ResumeHere(id_));
  ASSERT_TRUE(Eventually([&] { return relay_.pending() == 0; }));
  EXPECT_EQ(worker_.StateOf(id_), RequestState::kFinished);
  EXPECT_EQ(peers_.owner_calls, 0);
}

TEST_F(CancelRelayTest, OfAMovedOneTheOwnerIsToldOnceItCanBeReached) {
  Pause();
  peers_.owner_away = true;
  EXPECT_TRUE(*relay_.Cancel(id_));
  MoveAway();
  ASSERT_TRUE(Eventually([&] { return peers_.owner_calls > 3; }));
  EXPECT_EQ(peers_.told(), "");
  peers_.owner_away = false;
  ASSERT_TRUE(Eventually([&] { return relay_.pending() == 0; }));
  EXPECT_EQ(peers_.told(), "host:b");
}

TEST_F(CancelRelayTest, AFormerOwnerForwards) {
  Pause();
  MoveAway();
  peers_.owner_answer = absl::NotFoundError("it has ended there");
  EXPECT_TRUE(*relay_.Cancel(id_));
  ASSERT_TRUE(Eventually([&] { return relay_.pending() == 0; }));
  EXPECT_EQ(peers_.told(), "host:b");
  EXPECT_EQ(peers_.coordinator_calls, 1) << "no later attempt may commit either";
}

}  // namespace
}  // namespace riskkv::worker::testing

#include "services/client/core/stream_merger.h"

#include <string>
#include <utility>

#include "tests/testing/status_matchers.h"

namespace riskkv::client {
namespace {

using ::riskkv::testing::HasReason;
using ::testing::HasSubstr;

constexpr SourceId kA = 1, kB = 2, kC = 3;
const Target kWorkerA{"a", "10.0.0.1:1"};
const Target kWorkerB{"b", "10.0.0.2:1"};

TokenEvent Token(int64_t index, uint64_t epoch, int32_t token = -1) {
  TokenEvent e;
  e.index = index;
  e.epoch = epoch;
  e.token = token >= 0 ? token : static_cast<int32_t>(100 + index);
  return e;
}

MovedEvent MovedToB(uint64_t epoch, int64_t start) { return {"b", kWorkerB.address, epoch, start}; }

FinishedEvent Finished(int64_t tokens, uint64_t epoch, FinishReason reason = FinishReason::kLength) {
  FinishedEvent e;
  e.reason = reason;
  e.output_tokens = tokens;
  e.epoch = epoch;
  return e;
}

class StreamMergerTest : public ::testing::Test {
 protected:
  void SetUp() override { m_.OnSourceOpened(kA, kWorkerA); }
  Action Feed(SourceId source, const Event& event) { return m_.OnEvent(source, event).action; }
  // Tokens [begin, end) all delivered.
  void Deliver(SourceId source, int64_t begin, int64_t end, uint64_t epoch) {
    for (int64_t i = begin; i < end; ++i) ASSERT_EQ(Feed(source, Token(i, epoch)), Action::kDeliver) << i;
  }
  StreamMerger m_{0, 0};
};

TEST_F(StreamMergerTest, DeliversInOrderToTheEnd) {
  EXPECT_EQ(Feed(kA, StartedEvent{"r", 1, "a", 5}), Action::kNone);
  Deliver(kA, 0, 3, 1);
  EXPECT_EQ(Feed(kA, Finished(3, 1)), Action::kFinished);
  EXPECT_TRUE(m_.finished());
  EXPECT_EQ(m_.end().output_tokens, 3);
  EXPECT_EQ(m_.request_id(), "r");
}

// The stream ended as soon as it was cancelled; an owner whose log goes further is no gap.
TEST_F(StreamMergerTest, ACancelledEndAsksForNoIndex) {
  for (const int64_t tokens : {0, 3, 9}) {
    StreamMerger m(0, 0);
    m.OnSourceOpened(kA, kWorkerA);
    for (int64_t i = 0; i < 3; ++i) ASSERT_EQ(m.OnEvent(kA, Token(i, 1)).action, Action::kDeliver);
    EXPECT_EQ(m.OnEvent(kA, Finished(tokens, 1, FinishReason::kCancelled)).action, Action::kFinished) << tokens;
  }
}

TEST_F(StreamMergerTest, DropsADouble) {
  Deliver(kA, 0, 3, 1);
  EXPECT_EQ(Feed(kA, Token(1, 1)), Action::kDrop);
  EXPECT_EQ(m_.counters().doubles_dropped, 1);
  Deliver(kA, 3, 4, 1);
}

TEST_F(StreamMergerTest, ADoubleThatDiffersIsAnotherHistory) {
  Deliver(kA, 0, 3, 1);
  Verdict v = m_.OnEvent(kA, Token(1, 1, 7));
  EXPECT_EQ(v.action, Action::kFail);
  EXPECT_THAT(std::string(v.error.message()), HasSubstr("index 1 was token 101 of epoch 1, and is token 7"));
}

TEST_F(StreamMergerTest, RefusesAGapAndTakesUpAgain) {
  Deliver(kA, 0, 2, 1);
  Verdict v = m_.OnEvent(kA, Token(3, 1));
  EXPECT_EQ(v.action, Action::kReattach);
  EXPECT_THAT(v.error, HasReason("BAD_RANGE"));
  EXPECT_EQ(m_.counters().gaps_seen, 1);
  EXPECT_EQ(m_.next_index(), 2);
  // What the given up source still sends is not taken, even if it fits.
  EXPECT_EQ(Feed(kA, Token(2, 1)), Action::kDrop);
  m_.OnSourceOpened(kC, kWorkerA);
  Deliver(kC, 2, 5, 1);
}

TEST_F(StreamMergerTest, AnEndBeyondWhatWasDeliveredIsAGap) {
  Deliver(kA, 0, 2, 1);
  EXPECT_EQ(Feed(kA, Finished(4, 1)), Action::kReattach);
  EXPECT_FALSE(m_.finished());
}

TEST_F(StreamMergerTest, AnEndBeforeWhatWasDeliveredFails) {
  Deliver(kA, 0, 4, 1);
  Verdict v = m_.OnEvent(kA, Finished(3, 1));
  EXPECT_EQ(v.action, Action::kFail);
  EXPECT_EQ(v.error.code(), absl::StatusCode::kDataLoss);
}

TEST_F(StreamMergerTest, FollowsMoved) {
  Deliver(kA, 0, 4, 1);
  Verdict v = m_.OnEvent(kA, MovedToB(2, 4));
  EXPECT_EQ(v.action, Action::kFollow);
  EXPECT_EQ(v.target.address, kWorkerB.address);
  EXPECT_EQ(m_.epoch(), 2u);
  EXPECT_FALSE(m_.IsOwner(kA));
  m_.OnSourceOpened(kB, v.target);
  EXPECT_TRUE(m_.IsOwner(kB));
  Deliver(kB, 4, 6, 2);
  EXPECT_EQ(m_.counters().owner_changes, 1);
  // The old stream's end is nobody's loss.
  EXPECT_EQ(Feed(kA, BrokenEvent{absl::OkStatus()}), Action::kCloseSource);
}

TEST_F(StreamMergerTest, OldSourceMayStillDeliverBelowTheStart) {
  Deliver(kA, 0, 2, 1);
  EXPECT_EQ(Feed(kA, MovedToB(2, 4)), Action::kFollow);
  Deliver(kA, 2, 4, 1);
  EXPECT_EQ(Feed(kA, Token(4, 1)), Action::kDrop) << "the new epoch's index";
  EXPECT_EQ(m_.counters().stale_dropped, 1);
}

TEST_F(StreamMergerTest, NewOwnerRepeatsTheLogBelowItsStart) {
  Deliver(kA, 0, 2, 1);
  Feed(kA, MovedToB(2, 4));
  m_.OnSourceOpened(kB, kWorkerB);
  Deliver(kB, 2, 4, 1);  // from the request log: still tokens of epoch 1
  Deliver(kB, 4, 6, 2);
  EXPECT_EQ(Feed(kA, Token(3, 1)), Action::kDrop);
  EXPECT_EQ(m_.counters().doubles_dropped, 1);
  EXPECT_EQ(m_.counters().stale_dropped, 0);
}

TEST_F(StreamMergerTest, CandidateFasterThanMoved) {
  Deliver(kA, 0, 4, 1);
  Verdict v = m_.OnEvent(kA, MovingEvent{"b", kWorkerB.address, "m"});
  EXPECT_EQ(v.action, Action::kPreAttach);
  m_.OnSourceOpened(kB, v.target);
  EXPECT_TRUE(m_.IsOwner(kA));
  Deliver(kB, 4, 6, 2);
  EXPECT_TRUE(m_.IsOwner(kB));
  EXPECT_EQ(m_.epoch(), 2u);
  EXPECT_EQ(Feed(kA, Token(4, 1, 9)), Action::kDrop) << "stale, whatever it says";
  EXPECT_EQ(m_.counters().stale_dropped, 1);
  EXPECT_EQ(Feed(kA, MovedToB(2, 4)), Action::kDrop) << "old news";
}

TEST_F(StreamMergerTest, CandidateThatRefusesIsNotMissed) {
  Deliver(kA, 0, 4, 1);
  m_.OnSourceOpened(kB, m_.OnEvent(kA, MovingEvent{"b", kWorkerB.address, "m"}).target);
  EXPECT_EQ(Feed(kB, BrokenEvent{absl::NotFoundError("unknown request")}), Action::kCloseSource);
  Deliver(kA, 4, 6, 1);
}

TEST_F(StreamMergerTest, BrokenStreamOfTheOwnerIsAttachedAgain) {
  Deliver(kA, 0, 4, 1);
  Verdict v = m_.OnEvent(kA, BrokenEvent{absl::UnavailableError("reset")});
  EXPECT_EQ(v.action, Action::kReattach);
  EXPECT_EQ(m_.counters().broken_streams, 1);
  m_.OnSourceOpened(kC, kWorkerA);
  Deliver(kC, 4, 6, 1);
}

TEST_F(StreamMergerTest, NeverBackToALowerEpoch) {
  StreamMerger m(4, 3);
  m.OnSourceOpened(kA, kWorkerA);
  Verdict v = m.OnEvent(kA, StartedEvent{"r", 2, "a", 5});
  EXPECT_EQ(v.action, Action::kReattach);
  EXPECT_THAT(v.error, HasReason("STALE_FENCE"));
  EXPECT_EQ(m.counters().lower_epochs_refused, 1);
  EXPECT_EQ(m.OnLocated({"a", kWorkerA.address, 2, 0}).action, Action::kDrop);
  EXPECT_EQ(m.epoch(), 3u);
  EXPECT_EQ(m.OnLocated({"b", kWorkerB.address, 3, 4}).action, Action::kFollow);
}

TEST_F(StreamMergerTest, MovedOfALowerEpochIsOldNews) {
  Deliver(kA, 0, 2, 1);
  Feed(kA, MovedToB(3, 2));
  m_.OnSourceOpened(kB, kWorkerB);
  EXPECT_EQ(Feed(kB, MovedEvent{"a", kWorkerA.address, 2, 1}), Action::kDrop);
  EXPECT_EQ(m_.owner().worker_id, "b");
}

TEST_F(StreamMergerTest, RolledBackToTheSource) {
  Deliver(kA, 0, 4, 1);
  Feed(kA, MovedToB(2, 4));
  m_.OnSourceOpened(kB, kWorkerB);
  EXPECT_EQ(Feed(kB, MovedEvent{"a", kWorkerA.address, 3, 4}), Action::kFollow);
  m_.OnSourceOpened(kC, kWorkerA);
  Deliver(kC, 4, 6, 3);
  EXPECT_EQ(Feed(kB, Token(6, 2)), Action::kDrop);
  EXPECT_EQ(m_.counters().stale_dropped, 1);
}

TEST_F(StreamMergerTest, SupersededByAnotherClientFails) {
  Deliver(kA, 0, 2, 1);
  Verdict v = m_.OnEvent(kA, SupersededEvent{});
  EXPECT_EQ(v.action, Action::kFail);
  EXPECT_THAT(v.error, HasReason("SUPERSEDED"));
}

TEST_F(StreamMergerTest, SupersededOnAFormerOwnerIsNothing) {
  Deliver(kA, 0, 2, 1);
  Feed(kA, MovedToB(2, 2));
  m_.OnSourceOpened(kB, kWorkerB);
  EXPECT_EQ(Feed(kA, SupersededEvent{}), Action::kCloseSource);
}

TEST_F(StreamMergerTest, OwnSecondAttachForgetsTheFirst) {
  Deliver(kA, 0, 2, 1);
  m_.OnSourceOpened(kC, kWorkerA);
  EXPECT_EQ(Feed(kA, SupersededEvent{}), Action::kDrop);
  Deliver(kC, 2, 3, 1);
}

TEST_F(StreamMergerTest, TokensAboveANewStartThatWereDeliveredFailLoudly) {
  Deliver(kA, 0, 5, 1);
  Verdict v = m_.OnEvent(kA, MovedToB(2, 3));
  EXPECT_EQ(v.action, Action::kFail);
  EXPECT_THAT(v.error, HasReason("EPOCH_CONFLICT"));
}

TEST_F(StreamMergerTest, LateEndOfAnOldOwnerIsStale) {
  Deliver(kA, 0, 2, 1);
  Feed(kA, MovedToB(2, 2));
  m_.OnSourceOpened(kB, kWorkerB);
  EXPECT_EQ(Feed(kA, Finished(2, 1)), Action::kDrop);
  Deliver(kB, 2, 4, 2);
  EXPECT_EQ(Feed(kB, Finished(4, 2)), Action::kFinished);
}

TEST_F(StreamMergerTest, AFailedRequestKeepsItsReason) {
  FinishedEvent end = Finished(0, 1, FinishReason::kError);
  end.error = MakeError(absl::StatusCode::kInternal, "ENGINE_FAILED", "decode returned -3");
  Verdict v = m_.OnEvent(kA, end);
  EXPECT_EQ(v.action, Action::kFail);
  EXPECT_THAT(v.error, HasReason("ENGINE_FAILED"));
  EXPECT_THAT(std::string(v.error.message()), HasSubstr("decode returned -3"));
}

}  // namespace
}  // namespace riskkv::client

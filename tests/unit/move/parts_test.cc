// Segments, plans, pace and provenance by themselves.
#include <cstring>

#include "common/base/digest.h"
#include "gtest/gtest.h"
#include "services/worker/core/move_pace.h"
#include "services/worker/core/move_plan.h"
#include "services/worker/core/move_provenance.h"
#include "services/worker/core/move_segment.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::worker {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::IsOk;

Segment SegmentOf(const std::string& bytes) {
  Segment s;
  s.id = 1;
  s.range = {0, 1};
  s.layers = {0};
  s.bytes = static_cast<int64_t>(bytes.size());
  s.sha256 = Sha256Hex(bytes);
  return s;
}
Frame FrameOf(const std::string& payload, int64_t offset) {
  return {"m", 1, 1, 1, offset, static_cast<int64_t>(payload.size()), Xxh3(payload.data(), payload.size()), payload};
}

TEST(SegmentBuffer, SealsWhateverTheOrder) {
  const std::string bytes = "abcdefgh";
  SegmentBuffer s(SegmentOf(bytes));
  const std::string tail = "efgh", head = "abcde";
  ASSERT_THAT(s.Accept(FrameOf(tail, 4)), IsOk());
  EXPECT_FALSE(s.sealed());
  ASSERT_THAT(s.Accept(FrameOf(head, 0)), IsOk()) << "overlaps with equal bytes";
  ASSERT_TRUE(s.sealed());
  ASSERT_THAT(s.Accept(FrameOf(tail, 4)), IsOk()) << "a repeat";
  const std::vector<uint16_t> data = s.Take();
  EXPECT_EQ(std::memcmp(data.data(), bytes.data(), bytes.size()), 0);
  EXPECT_THAT(s.Accept(FrameOf(tail, 4)), IsOk());
  EXPECT_TRUE(s.Take().empty());
}

TEST(SegmentBuffer, RefusesByName) {
  SegmentBuffer s(SegmentOf("abcdefgh"));
  const std::string xy = "xy", ab = "ab", long_one(9, 'a');
  EXPECT_THAT(s.Accept(FrameOf(xy, 7)), HasReason("BAD_RANGE"));
  EXPECT_THAT(s.Accept(FrameOf(xy, -1)), HasReason("BAD_RANGE"));
  EXPECT_THAT(s.Accept(FrameOf(long_one, 0)), HasReason("BAD_RANGE"));
  EXPECT_THAT(s.Accept(FrameOf("", 0)), HasReason("BAD_RANGE"));
  Frame damaged = FrameOf(ab, 0);
  damaged.payload = xy;
  EXPECT_THAT(s.Accept(damaged), HasReason("CHECKSUM"));
  Frame lies = FrameOf(ab, 0);
  lies.length = 3;
  EXPECT_THAT(s.Accept(lies), HasReason("BAD_RANGE"));
  ASSERT_THAT(s.Accept(FrameOf(ab, 0)), IsOk());
  EXPECT_THAT(s.Accept(FrameOf(xy, 1)), HasReason("MANIFEST_MISMATCH")) << "other bytes for offset 1";
  const std::string wrong = "XXXXXX";
  EXPECT_THAT(s.Accept(FrameOf(wrong, 2)), HasReason("DIGEST"));
  EXPECT_FALSE(s.sealed());
}

ShipPolicy Risk() {
  ShipPolicy p;
  p.mode = MoveMode::kRisk;
  p.layout.n_layer = 10;
  p.layout.n_head_kv = 1;
  p.layout.head_dim = 4;
  p.omitted = {2, 3};
  p.seed = 7;
  return p;
}

TEST(Plan, TilesTheRangeAndKeepsTheEndsExact) {
  for (int64_t n : {133, 200, 260, 384, 1000, 1001}) {
    const ShipPolicy policy = Risk();
    const int64_t body_end = BodyEnd(policy, n);
    int64_t at = 0;
    for (const BlockPlan& b : PlanBlocks(policy, {0, n}, body_end)) {
      EXPECT_EQ(b.cells.range.begin, at);
      at = b.cells.range.end;
      EXPECT_EQ(b.cells.range.begin / kMoveBlockTokens, (b.cells.range.end - 1) / kMoveBlockTokens) << "blocks do not straddle";
      if (b.cells.range.begin < policy.ends.first || b.cells.range.end > n - policy.ends.last) {
        EXPECT_FALSE(b.cells.rebuild);
      }
      EXPECT_EQ(b.cells.layers.size(), b.cells.rebuild ? 8u : 10u);
      EXPECT_EQ(b.probe.positions.empty(), !b.cells.rebuild);
      for (int64_t p : b.probe.positions) EXPECT_TRUE(p >= b.cells.range.begin && p < b.cells.range.end);
    }
    EXPECT_EQ(at, n);
  }
}

TEST(Plan, ProbesNativeTokensOnly) {
  ShipPolicy policy = Risk();
  policy.rebuilt.Add({4, 300});
  for (const BlockPlan& b : PlanBlocks(policy, {0, 1000}, 872)) {
    for (int64_t p : b.probe.positions) EXPECT_GE(p, 300);
    if (b.cells.rebuild && b.cells.range.end > 300) {
      EXPECT_EQ(b.probe.positions.size(), 2u) << b.cells.range.begin;
    }
  }
}

TEST(Plan, ProbesChangeWithTheAttempt) {
  Fence a{"m", 1, 1, "r", "", "", 0}, b{"m", 2, 1, "r", "", "", 0};
  EXPECT_EQ(ProbeSeed(a), ProbeSeed(a));
  EXPECT_NE(ProbeSeed(a), ProbeSeed(b));
  EXPECT_FALSE(HasBody({4, 128}, 132));
  EXPECT_TRUE(HasBody({4, 128}, 133));
}

PaceLimits Limits(int pause_ms, int rounds = 8) {
  PaceLimits limits;
  limits.max_pause = absl::Milliseconds(pause_ms);
  limits.max_rounds = rounds;
  limits.commit = absl::Milliseconds(10);
  return limits;
}
RoundSample Sample(int64_t cells, int ms, int call_ms = 1) {
  return {cells, cells * 1000, absl::Milliseconds(ms), absl::ZeroDuration(), absl::Milliseconds(call_ms)};
}

TEST(Pace, GoesOnWhileItShrinksThenPauses) {
  Pacer pacer(Limits(200));
  pacer.Record(Sample(1000, 1000));
  EXPECT_EQ(pacer.Decide(60, 60000), Pacer::Next::kRound);
  pacer.Record(Sample(60, 60));
  EXPECT_EQ(pacer.Decide(3, 3000), Pacer::Next::kPause);
  EXPECT_EQ(pacer.PredictPause(3, 3000), absl::Milliseconds(3 + 10) + absl::Milliseconds(1060) * (3000.0 / 1060000));
}

TEST(Pace, GivesUpByRule) {
  Pacer slow(Limits(200));
  slow.Record(Sample(1000, 10000));
  EXPECT_EQ(slow.Decide(500, 500000), Pacer::Next::kRound);
  slow.Record(Sample(500, 5000));
  EXPECT_EQ(slow.Decide(490, 490000), Pacer::Next::kGiveUp);
  EXPECT_THAT(slow.GaveUp(), HasReason("STAGES_EXCEEDED"));
  Pacer few(Limits(200, 2));
  few.Record(Sample(1000, 10000));
  few.Record(Sample(500, 5000));
  EXPECT_EQ(few.Decide(400, 400000), Pacer::Next::kGiveUp) << "no rounds left";
  Pacer far(Limits(20));
  far.Record(Sample(1000, 10, 30));
  EXPECT_EQ(far.Decide(2, 2000), Pacer::Next::kGiveUp);
  EXPECT_THAT(far.GaveUp(), HasReason("PAUSE_BUDGET")) << "the round trips alone take longer";
}

TEST(Provenance, Ranges) {
  std::vector<Provenance> p;
  p = AddProvenance(p, {{4, 128}, "s", "a"});
  p = AddProvenance(p, {{128, 256}, "s", "a"});
  ASSERT_EQ(p.size(), 1u);
  EXPECT_EQ(p[0].range, (TokenRange{4, 256}));
  p = AddProvenance(p, {{100, 110}, "s", "b"});
  ASSERT_EQ(p.size(), 3u);
  EXPECT_EQ(p[1].profile, "b");
  EXPECT_EQ(p[2].range, (TokenRange{110, 256}));
  EXPECT_EQ(RebuiltRanges(p).size(), 252);
  EXPECT_THAT(CheckProvenance(p, 256), IsOk());
  EXPECT_THAT(CheckProvenance(p, 255), HasReason("BAD_RANGE"));
  EXPECT_THAT(CheckSameProvenance(p, "s", "a"), HasReason("STATE_NOT_TRANSFERABLE"));
  EXPECT_EQ(ClipProvenance(p, {105, 120}).size(), 2u);
}

}  // namespace
}  // namespace riskkv::worker

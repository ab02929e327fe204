// Moves that succeed.
#include <algorithm>
#include <atomic>

#include "fmt/format.h"
#include "tests/integration/processes/process_fixture.h"

namespace riskkv::cli {
namespace {

using MovesTest = ProcessTest;

constexpr int64_t kAfter = 16;  // tokens of the last owner that are compared too

TEST_F(MovesTest, TenMovesThereAndBackChangeNoToken) {
  constexpr int kMoves = 10;
  const v1::GenerateRequest request = Request(100, 3000);
  auto stream = Generate(0, request);
  ASSERT_NO_FATAL_FAILURE(ReadUntil(*stream, 2));
  std::vector<v1::Outcome> outcomes;
  absl::Status error;
  std::atomic<bool> done{false};
  const std::string id = stream->request_id();
  Meanwhile mover([&] {
    for (uint64_t i = 0; i < kMoves && error.ok(); ++i) {
      const int to = i % 2 == 0 ? 1 : 0;
      AwaitEmpty(to);
      auto outcome = Migrate(id, i + 1, to == 1 ? "b" : "a", v1::MODE_FULL);
      error = outcome.status();
      if (outcome.ok()) outcomes.push_back(*outcome);
    }
    done = true;
  });
  while (!done) ASSERT_NO_FATAL_FAILURE(ReadUntil(*stream, stream->merger().next_index() + 1));
  mover.Join();
  ASSERT_OK(error);
  for (const v1::Outcome& o : outcomes) {
    ASSERT_EQ(o.state(), v1::MIGRATION_STATE_SUCCEEDED) << o.ShortDebugString();
    EXPECT_EQ(o.mode(), v1::MODE_FULL);
  }
  ASSERT_EQ(outcomes.size(), kMoves);
  EXPECT_EQ(outcomes.back().owner(), "a");
  EXPECT_EQ(outcomes.back().epoch(), kMoves + 1u);
  ASSERT_NO_FATAL_FAILURE(ReadAndEnd(*stream, kAfter));
  EXPECT_GE(stream->log().OwnerChanges().size(), kMoves / 2u) << "the client sees the owners change";
  const std::vector<int32_t> got = stream->log().Tokens();
  EXPECT_EQ(got, Unmoved(request, got.size()));
  fmt::print("{} moves within {} tokens\n", kMoves, got.size());
}

class LengthTest : public ProcessTest {
 protected:
  struct Run {
    v1::Outcome outcome;
    std::vector<int32_t> tokens;
  };
  // A request of `n` prompt tokens, moved from a to b as soon as it has an output token.
  void MoveOne(const v1::GenerateRequest& request, v1::Mode mode, Run& run) {
    AwaitEmpty(0);
    AwaitEmpty(1);
    auto stream = Generate(0, request);
    ASSERT_NO_FATAL_FAILURE(ReadUntil(*stream, 1));
    auto outcome = Migrate(stream->request_id(), 1, "b", mode);
    ASSERT_OK(outcome.status());
    run.outcome = *outcome;
    ASSERT_EQ(run.outcome.state(), v1::MIGRATION_STATE_SUCCEEDED) << run.outcome.ShortDebugString();
    ASSERT_EQ(run.outcome.owner(), "b");
    fmt::print("{} prompt tokens, {}: predicted {:.0f} ms, took {:.0f} ms; {} rounds\n", request.tokens().ids_size(),
               v1::Mode_Name(run.outcome.mode()), run.outcome.predicted_ms(), run.outcome.total_ms(), run.outcome.stats().rounds());
    const int64_t there = run.outcome.start_index() - stream->merger().next_index();
    ASSERT_NO_FATAL_FAILURE(ReadAndEnd(*stream, std::max<int64_t>(0, there) + kAfter));
    run.tokens = stream->log().Tokens();
    ASSERT_EQ(stream->log().OwnerChanges().size(), 1u);
    EXPECT_EQ(stream->log().OwnerChanges()[0].index, run.outcome.start_index());
  }
};

TEST_F(LengthTest, EveryLengthMovesAndFullChangesNoToken) {
  for (int n : {1, 7, 127, 128, 129, 1000}) {
    SCOPED_TRACE(fmt::format("{} prompt tokens", n));
    const v1::GenerateRequest request = Request(n, 1000);
    Run full;
    ASSERT_NO_FATAL_FAILURE(MoveOne(request, v1::MODE_FULL, full));
    EXPECT_EQ(full.outcome.mode(), v1::MODE_FULL);
    const std::vector<int32_t> unmoved = Unmoved(request, full.tokens.size());
    EXPECT_EQ(full.tokens, unmoved);
    if (n != 7 && n != 1000) continue;
    // RISK needs more tokens than the 132 that go for all layers; a shorter request goes FULL.
    Run risk;
    ASSERT_NO_FATAL_FAILURE(MoveOne(request, v1::MODE_RISK, risk));
    const auto common = static_cast<std::ptrdiff_t>(std::min(unmoved.size(), risk.tokens.size()));
    if (n == 7) {
      EXPECT_EQ(risk.outcome.mode(), v1::MODE_FULL);
      EXPECT_EQ(std::vector<int32_t>(risk.tokens.begin(), risk.tokens.begin() + common),
                std::vector<int32_t>(unmoved.begin(), unmoved.begin() + common));
      continue;
    }
    EXPECT_EQ(risk.outcome.mode(), v1::MODE_RISK);
    EXPECT_EQ(risk.outcome.profile(), kRiskProfile);
    EXPECT_GE(risk.outcome.stats().tokens_rebuilt(), n - 132);
    EXPECT_EQ(risk.outcome.stats().omitted_layers_size(), 2);
    EXPECT_LT(risk.outcome.stats().bytes_sent(), risk.outcome.stats().bytes_full());
    const auto before = static_cast<std::ptrdiff_t>(std::min<int64_t>(risk.outcome.start_index(), common));
    EXPECT_EQ(std::vector<int32_t>(risk.tokens.begin(), risk.tokens.begin() + before),
              std::vector<int32_t>(unmoved.begin(), unmoved.begin() + before))
        << "what the source produced is not touched";
  }
}

TEST_F(LengthTest, CodedSendsAFractionAndTouchesNothingThatWasProduced) {
  const v1::GenerateRequest request = Request(1000, 1000);
  Run coded;
  ASSERT_NO_FATAL_FAILURE(MoveOne(request, v1::MODE_CODED, coded));
  const v1::MoveStats& stats = coded.outcome.stats();
  EXPECT_EQ(coded.outcome.mode(), v1::MODE_CODED);
  EXPECT_EQ(coded.outcome.profile(), kCodedProfile);
  EXPECT_EQ(stats.tokens_coded(), stats.tokens_at_pause() - 1) << "ends included: they go in 8 bits";
  EXPECT_LT(stats.bytes_sent(), stats.bytes_full() / 4);
  EXPECT_GT(stats.encode_ms(), 0);
  EXPECT_GT(stats.decode_ms(), 0);
  EXPECT_LE(stats.probe_error(), 1);
  const std::vector<int32_t> unmoved = Unmoved(request, coded.tokens.size());
  const auto before = std::min<std::ptrdiff_t>(coded.outcome.start_index(), static_cast<std::ptrdiff_t>(unmoved.size()));
  EXPECT_EQ(std::vector<int32_t>(coded.tokens.begin(), coded.tokens.begin() + before),
            std::vector<int32_t>(unmoved.begin(), unmoved.begin() + before));
}

}  // namespace
}  // namespace riskkv::cli

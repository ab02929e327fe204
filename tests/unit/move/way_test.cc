// Moves that succeed: the fake engine's next token is a hash over every byte of its cache, so equal output means equal caches.
#include <algorithm>
#include <tuple>

#include "tests/unit/move/move_fixture.h"

namespace riskkv::worker::testing {
namespace {

class WayTest : public MoveTest, public ::testing::WithParamInterface<std::tuple<MoveMode, int>> {};

TEST_P(WayTest, OutputIsThatOfTheUnmovedRequest) {
  const auto [mode, tokens] = GetParam();
  const int left = 300;
  const std::string id = Admit(tokens, left);
  AwaitTokens(*a_, id, tokens + 2);
  const Outcome out = Move(*a_, *b_, id, mode, "m");
  ASSERT_OK(out.reserve);
  ASSERT_OK(out.start);
  EXPECT_OK(out.failed);
  ASSERT_EQ(out.last, MoveState::kResumed);
  EXPECT_EQ(Output(*b_, id), Unmoved(tokens, left));
  EXPECT_EQ(authority_.prepared_calls, 1);
  const auto source = a_->manager->Get(id);
  ASSERT_OK(source);
  EXPECT_EQ(source->state, RequestState::kMoved);
  EXPECT_EQ(source->moved_to.worker_id, "b");
  EXPECT_EQ(source->moved_to.next_index, out.stats.output_tokens);
  if (mode != MoveMode::kRisk) {
    EXPECT_TRUE(out.stats.omitted_layers.empty());
  } else if (tokens > 132) {
    EXPECT_FALSE(out.stats.omitted_layers.empty());
  }
  ExpectIdle();
}

INSTANTIATE_TEST_SUITE_P(Lengths, WayTest,
                         ::testing::Combine(::testing::Values(MoveMode::kFull, MoveMode::kRisk, MoveMode::kReplay),
                                            ::testing::Values(1, 7, 127, 128, 129, 1000)),
                         [](const auto& info) {
                           return std::string(MoveModeName(std::get<0>(info.param))) + std::to_string(std::get<1>(info.param));
                         });

TEST_F(MoveTest, RiskOfNoMoreTokensThanTheEndsGoesFull) {
  Build(FastEngine(20000), FastEngine());
  const std::string id = Admit(7, 60);
  AwaitTokens(*a_, id, 9);
  const Outcome out = Move(*a_, *b_, id, MoveMode::kRisk, "m");
  ASSERT_EQ(out.last, MoveState::kResumed);
  EXPECT_TRUE(out.stats.omitted_layers.empty());
  EXPECT_EQ(out.stats.bytes_sent, out.stats.bytes_full);
  EXPECT_EQ(Output(*b_, id), Unmoved(7, 60));
  EXPECT_TRUE(b_->manager->Get(id)->provenance.empty());
}

TEST_F(MoveTest, TenMovesThereAndBackFull) {
  Build(FastEngine(1500), FastEngine(1500));
  const std::string id = Admit(300, 2000);
  AwaitTokens(*a_, id, 302);
  for (int i = 0; i < 10; ++i) {
    Node& from = i % 2 == 0 ? *a_ : *b_;
    Node& to = i % 2 == 0 ? *b_ : *a_;
    const Outcome out = Move(from, to, id, MoveMode::kFull, "m" + std::to_string(i));
    ASSERT_OK(out.reserve);
    ASSERT_OK(out.failed);
    ASSERT_EQ(out.last, MoveState::kResumed) << i;
    EXPECT_EQ(to.manager->Get(id)->epoch, static_cast<uint64_t>(i + 2));
  }
  EXPECT_EQ(Output(*a_, id), Unmoved(300, 2000));
  ExpectIdle();
}

TEST_F(MoveTest, TenMovesThereAndBackRiskKeepProvenance) {
  Build(FastEngine(1500), FastEngine(1500));
  const std::string id = Admit(600, 2000);
  AwaitTokens(*a_, id, 602);
  for (int i = 0; i < 10; ++i) {
    Node& from = i % 2 == 0 ? *a_ : *b_;
    Node& to = i % 2 == 0 ? *b_ : *a_;
    const Outcome out = Move(from, to, id, MoveMode::kRisk, "m" + std::to_string(i));
    ASSERT_OK(out.reserve);
    ASSERT_OK(out.failed);
    ASSERT_EQ(out.last, MoveState::kResumed) << i;
    const auto there = to.manager->Get(id);
    ASSERT_EQ(there->provenance.size(), 1u);
    EXPECT_EQ(there->provenance[0].range.begin, 4);
    EXPECT_EQ(there->provenance[0].range.end, 4 + out.stats.tokens_rebuilt);
    EXPECT_EQ(there->provenance[0].profile, "risk-0.005");
  }
  EXPECT_EQ(Output(*a_, id), Unmoved(600, 2000));
  ExpectIdle();
}

TEST_F(MoveTest, RebuiltCellsMoveOnlyWithTheSameProfileOrFull) {
  Build(FastEngine(1500), FastEngine(1500));
  const std::string id = Admit(600, 1500);
  AwaitTokens(*a_, id, 602);
  ASSERT_EQ(Move(*a_, *b_, id, MoveMode::kRisk, "m1").last, MoveState::kResumed);
  StartMoveParams other = Params(*b_, *a_, id, MoveMode::kRisk, "m2");
  other.profile = "risk-0.002";
  const Outcome refused = Move(*b_, *a_, other);
  EXPECT_THAT(refused.failed, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(refused.failed, HasReason("STATE_NOT_TRANSFERABLE"));
  const Outcome full = Move(*b_, *a_, id, MoveMode::kFull, "m3");
  ASSERT_OK(full.failed);
  EXPECT_EQ(full.last, MoveState::kResumed);
  EXPECT_EQ(a_->manager->Get(id)->provenance.size(), 1u) << "FULL after RISK keeps where cells came from";
  const Outcome replay = Move(*a_, *b_, id, MoveMode::kReplay, "m4");
  ASSERT_OK(replay.failed);
  EXPECT_TRUE(b_->manager->Get(id)->provenance.empty()) << "replayed cells are native";
  EXPECT_EQ(Output(*b_, id), Unmoved(600, 1500));
  ExpectIdle();
}

TEST_F(MoveTest, OmittedLayersTravelOnlyAtTheEndsAndInProbes) {
  const std::string id = Admit(1000, 300);
  AwaitTokens(*a_, id, 1002);
  const Outcome out = Move(*a_, *b_, id, MoveMode::kRisk, "m");
  ASSERT_OK(out.failed);
  ASSERT_EQ(out.last, MoveState::kResumed);
  const int64_t token_layer = a_->manager->facts().fingerprint.layout.bytes_per_token_layer();
  const int64_t layers = a_->manager->facts().fingerprint.layout.n_layer;
  const int64_t n_kv = out.stats.tokens_at_pause - 1;
  const int64_t omitted = static_cast<int64_t>(out.stats.omitted_layers.size());
  ASSERT_EQ(omitted, 4);
  EXPECT_EQ(out.stats.tokens_rebuilt + out.stats.tokens_exact, n_kv);
  EXPECT_GE(out.stats.tokens_exact, 4 + 128);
  EXPECT_LE(out.stats.tokens_exact, 4 + 128 + 300);
  const int64_t blocks = (out.stats.tokens_rebuilt + 127) / 128 + 1;
  const int64_t without_probes = n_kv * layers * token_layer - out.stats.tokens_rebuilt * omitted * token_layer;
  EXPECT_GT(out.stats.bytes_sent, without_probes);
  EXPECT_LE(out.stats.bytes_sent, without_probes + blocks * 2 * omitted * token_layer);
  EXPECT_EQ(out.stats.bytes_full, n_kv * layers * token_layer);
  EXPECT_EQ(b_->wire.payload_bytes, out.stats.bytes_sent) << "nothing else went over the wire";
  for (int layer = 0; layer < layers; ++layer) {
    const bool was_omitted = std::count(out.stats.omitted_layers.begin(), out.stats.omitted_layers.end(), layer) > 0;
    const LayerBytes& got = b_->wire.last_final.received[layer];
    EXPECT_EQ(got.cells, (was_omitted ? out.stats.tokens_exact : n_kv) * token_layer) << "layer " << layer;
    EXPECT_EQ(got.probe > 0, was_omitted) << "layer " << layer;
    EXPECT_LE(got.probe, blocks * 2 * token_layer) << "layer " << layer;
  }
  Output(*b_, id);
  ExpectIdle();
}

}  // namespace
}  // namespace riskkv::worker::testing

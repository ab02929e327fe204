// CODED moves: what arrives is within the quantiser's bound of what left, and what is not is refused.
#include <algorithm>
#include <cmath>

#include "common/codec/coded_probe.h"
#include "common/codec/int8_rows.h"
#include "kernels/fp16.h"
#include "services/worker/core/move_rebuild.h"
#include "tests/unit/move/move_fixture.h"

namespace riskkv::worker::testing {
namespace {

// Cells of the fake are uniform in [-1024, 1024); profile coded-0.002 has steps of a quarter of their
// deviation.
constexpr double kStep = 0.25 * 2048 / 3.4641016;
constexpr double kLargestError = 0.6 * kStep + 1;

double LargestError(const KvBlock& a, const KvBlock& b) {
  double largest = a.data.size() == b.data.size() ? 0 : 1e9;
  for (std::size_t i = 0; i < std::min(a.data.size(), b.data.size()); ++i)
    largest = std::max(largest, std::fabs(static_cast<double>(kernels::HalfToFloat(a.data[i])) -
                                          kernels::HalfToFloat(b.data[i])));
  return largest;
}

class CodedTest : public MoveTest {
 protected:
  void SetUp() override { Build(FastEngine(2000), FastEngine(2000)); }
  KvBlock Cells(Node& node, const std::string& id, TokenRange range) {
    auto block = node.manager->Export(id, range, AllLayers(node.manager->facts().fingerprint.layout));
    EXPECT_OK(block);
    return block.ok() ? *std::move(block) : KvBlock{};
  }
  // Cells [0, n) of the request had it not moved.
  KvBlock UnmovedCells(int prompt, int64_t n) {
    FakeAuthority nobody;
    Node alone("x", FastEngine(500), &nobody);
    RequestParams params;
    params.stop.max_tokens = 4000;
    auto id = alone.manager->Admit(params, PromptOf(prompt));
    EXPECT_OK(id);
    AwaitTokens(alone, *id, n + 1);
    return Cells(alone, *id, {0, n});
  }
};

class CodedWayTest : public CodedTest, public ::testing::WithParamInterface<int> {};

TEST_P(CodedWayTest, WhatArrivesIsWithinTheQuantisersBound) {
  const int tokens = GetParam();
  const std::string id = Admit(tokens, 3000);
  AwaitTokens(*a_, id, tokens + 2);
  const Outcome out = Move(*a_, *b_, id, MoveMode::kCoded, "m");
  ASSERT_OK(out.reserve);
  ASSERT_OK(out.failed);
  ASSERT_EQ(out.last, MoveState::kResumed);
  const int64_t n_kv = out.stats.tokens_at_pause - 1;
  const KvBlock exact = UnmovedCells(tokens, n_kv), arrived = Cells(*b_, id, {0, n_kv});
  EXPECT_LE(LargestError(exact, arrived), kLargestError);
  EXPECT_EQ(out.stats.tokens_coded + out.stats.tokens_exact, n_kv);
  EXPECT_EQ(b_->wire.payload_bytes, out.stats.bytes_sent) << "nothing else went over the wire";
  const auto there = b_->manager->Get(id)->provenance;
  EXPECT_NE(exact.data, arrived.data);
  EXPECT_EQ(out.stats.tokens_coded, n_kv);
  EXPECT_GT(out.stats.decode_ms, 0);
  EXPECT_GT(out.stats.encode_ms, 0);
  ASSERT_EQ(there.size(), 1u) << "no cell is exact: the ends are in 8 bits";
  EXPECT_EQ(there[0].range.begin, 0);
  EXPECT_EQ(there[0].range.end, n_kv);
  EXPECT_EQ(there[0].profile, "coded-0.002");
  if (tokens == 1000) {
    EXPECT_LT(out.stats.bytes_sent, out.stats.bytes_full / 2);
    EXPECT_GT(out.stats.probe_error, 0);
    EXPECT_LE(out.stats.probe_error, 1);
  }
  ASSERT_OK(b_->manager->Cancel(id));
  ExpectIdle();
}

INSTANTIATE_TEST_SUITE_P(Lengths, CodedWayTest, ::testing::Values(60, 127, 128, 129, 168, 1000));

TEST_F(CodedTest, OfNoMoreTokensThanTheEndsGoesFull) {
  Build(FastEngine(20000), FastEngine());
  const std::string id = Admit(7, 60);
  AwaitTokens(*a_, id, 9);
  const Outcome out = Move(*a_, *b_, id, MoveMode::kCoded, "m");
  ASSERT_EQ(out.last, MoveState::kResumed);
  EXPECT_EQ(out.stats.tokens_coded, 0);
  EXPECT_EQ(out.stats.bytes_sent, out.stats.bytes_full);
  EXPECT_EQ(Output(*b_, id), Unmoved(7, 60));
  EXPECT_TRUE(b_->manager->Get(id)->provenance.empty());
}

TEST_F(CodedTest, ExactEndsArriveBitForBit) {
  const std::string id = Admit(300, 3000);
  AwaitTokens(*a_, id, 302);
  StartMoveParams p = Params(*a_, *b_, id, MoveMode::kCoded, "m");
  p.profile = "coded-0.005";
  const Outcome out = Move(*a_, *b_, p);
  ASSERT_OK(out.failed);
  const int64_t n_kv = out.stats.tokens_at_pause - 1;
  const KvBlock exact = UnmovedCells(300, n_kv), arrived = Cells(*b_, id, {0, n_kv});
  for (TokenRange end : {TokenRange{0, 4}, TokenRange{n_kv - 36, n_kv}}) {
    EXPECT_EQ(Slice(exact, end, exact.layers)->data, Slice(arrived, end, exact.layers)->data) << end.begin;
  }
  EXPECT_NE(exact.data, arrived.data);
  EXPECT_GE(out.stats.tokens_exact, 40);
  const auto there = b_->manager->Get(id)->provenance;
  ASSERT_EQ(there.size(), 1u);
  EXPECT_EQ(there[0].range.begin, 4);
  EXPECT_EQ(there[0].range.size(), out.stats.tokens_coded);
  ASSERT_OK(b_->manager->Cancel(id));
}

TEST_F(CodedTest, ASecondMoveAddsNoSecondLoss) {
  const std::string id = Admit(600, 3000);
  AwaitTokens(*a_, id, 602);
  ASSERT_OK(Move(*a_, *b_, id, MoveMode::kCoded, "m0").failed);
  const KvBlock first = Cells(*b_, id, {4, 512});
  for (int i = 1; i < 6; ++i) {
    Node& from = i % 2 == 0 ? *a_ : *b_;
    Node& to = i % 2 == 0 ? *b_ : *a_;
    const Outcome out = Move(from, to, id, MoveMode::kCoded, "m" + std::to_string(i));
    ASSERT_OK(out.reserve);
    ASSERT_OK(out.failed);
    ASSERT_EQ(out.last, MoveState::kResumed) << i;
    EXPECT_EQ(Cells(to, id, {4, 512}).data, first.data) << "decoded cells quantise to the same levels";
    const auto there = to.manager->Get(id)->provenance;
    ASSERT_EQ(there.size(), 1u);
    EXPECT_EQ(there[0].range.end, out.stats.tokens_at_pause - 1);
  }
  ASSERT_OK(a_->manager->Cancel(id));
  ExpectIdle();
}

TEST_F(CodedTest, CodedCellsMoveOnlyWithTheSameProfileOrFull) {
  const std::string id = Admit(600, 3000);
  AwaitTokens(*a_, id, 602);
  ASSERT_OK(Move(*a_, *b_, id, MoveMode::kCoded, "m1").failed);
  StartMoveParams other = Params(*b_, *a_, id, MoveMode::kCoded, "m2");
  other.profile = "coded-0.005";
  EXPECT_THAT(Move(*b_, *a_, other).failed, HasReason("STATE_NOT_TRANSFERABLE"));
  StartMoveParams risk = Params(*b_, *a_, id, MoveMode::kRisk, "m3");
  risk.predictor_set = coded_digest_;
  EXPECT_THAT(Move(*b_, *a_, risk).failed, HasReason("STATE_NOT_TRANSFERABLE"));
  const KvBlock before = Cells(*b_, id, {0, 600});
  ASSERT_OK(Move(*b_, *a_, id, MoveMode::kFull, "m4").failed);
  EXPECT_EQ(Cells(*a_, id, {0, 600}).data, before.data);
  EXPECT_EQ(a_->manager->Get(id)->provenance.size(), 1u) << "FULL after CODED keeps where cells came from";
  ASSERT_OK(a_->manager->Cancel(id));
  ExpectIdle();
}

TEST_F(CodedTest, ASetWithoutACodecOrTheProfileIsRefusedByName) {
  const std::string id = Admit(300, 200);
  AwaitTokens(*a_, id, 302);
  StartMoveParams p = Params(*a_, *b_, id, MoveMode::kCoded, "m");
  p.predictor_set = digest_;
  EXPECT_THAT(Reserve(*a_, *b_, p), HasReason("PREDICTOR_MISSING"));
  p.predictor_set = coded_digest_;
  for (const char* profile : {"coded-none", "risk-0.005", ""}) {
    p.profile = profile;
    EXPECT_THAT(Reserve(*a_, *b_, p), HasReason("UNKNOWN_PROFILE")) << profile;
  }
  EXPECT_EQ(Output(*a_, id), Unmoved(300, 200));
  ExpectIdle();
}

TEST_F(CodedTest, DamagedFramesAreSentAgainAndDamagedBlocksRefused) {
  const std::string id = Admit(300, 600);
  AwaitTokens(*a_, id, 302);
  b_->wire.flip_payloads = 1;
  const Outcome refused = Move(*a_, *b_, id, MoveMode::kCoded, "m1");
  EXPECT_THAT(refused.failed, HasReason("DIGEST"));
  EXPECT_EQ(a_->manager->Get(id)->epoch, 1u) << "goes on at the source";
  b_->wire.flip_frames = 1;
  const Outcome out = Move(*a_, *b_, id, MoveMode::kCoded, "m2");
  ASSERT_OK(out.failed);
  EXPECT_EQ(out.last, MoveState::kResumed);
  Output(*b_, id);
  ExpectIdle();
}

// The parts, on one block of the fake's cells.
class CodedBlockTest : public CodedTest {
 protected:
  void SetUp() override {
    CodedTest::SetUp();
    move_ = OpenCodedMove(b_->predictors->Get(coded_digest_).value(), "coded-0.002").value();
    cells_ = UnmovedCells(300, 300);
    cells_ = Slice(cells_, {128, 256}, cells_.layers).value();
    coded_.segment.range = cells_.range;
    coded_.segment.layers = cells_.layers;
    coded_.segment.encoding = CellEncoding::kCoded;
    SetBytes(EncodeCells(*move_, CellEncoding::kCoded, cells_, scratch_).value().bytes);
  }
  void SetBytes(const std::string& bytes) {
    coded_.segment.bytes = static_cast<int64_t>(bytes.size());
    coded_.data.assign((bytes.size() + 1) / 2, 0);
    std::memcpy(coded_.data.data(), bytes.data(), bytes.size());
  }
  SealedSegment Probe(const KvBlock& from) const {
    SealedSegment probe;
    probe.segment.kind = SegmentKind::kProbe;
    probe.segment.positions = {130, 200};
    probe.segment.layers = CodedProbeLayers(move_->codec(), move_->policy, 3, 1);
    probe.data = GatherRows(from, probe.segment.positions, probe.segment.layers).value().data;
    return probe;
  }
  absl::StatusOr<KvBlock> Assemble(const std::optional<SealedSegment>& probe) {
    return BlockAssembler(b_->manager->facts().fingerprint.layout, nullptr, nullptr, move_, b_->backend.get())
        .Assemble(coded_, probe);
  }

  std::shared_ptr<const CodedMove> move_;
  KvBlock cells_;
  SealedSegment coded_;
  CodecScratch scratch_;
};

TEST_F(CodedBlockTest, APassingProbeAndOneThatDiffers) {
  EXPECT_OK(Assemble(Probe(cells_)));
  KvBlock other = cells_;
  for (uint16_t& cell : other.data)
    cell = kernels::FloatToHalf(kernels::HalfToFloat(cell) + static_cast<float>(kStep));
  EXPECT_THAT(Assemble(Probe(other)), HasReason("VERIFY_GATE"));
}

TEST_F(CodedBlockTest, BytesThatAreWrongAreNamed) {
  const std::string good(coded_.bytes());
  std::string bad = good;
  bad[bad.size() / 2] ^= 4;
  SetBytes(bad);
  EXPECT_THAT(Assemble(std::nullopt), HasReason("CORRUPT_FILE"));
  SetBytes(good);
  coded_.segment.range = {129, 257};
  EXPECT_THAT(Assemble(std::nullopt), HasReason("CORRUPT_FILE")) << "a block of other cells";
  coded_.segment.range = cells_.range;
  coded_.segment.encoding = CellEncoding::kInt8;
  EXPECT_THAT(Assemble(std::nullopt), HasReason("CORRUPT_FILE")) << "a coded block as 8-bit cells";
  coded_.segment.encoding = CellEncoding::kCoded;
  move_ = OpenCodedMove(b_->predictors->Get(coded_digest_).value(), "coded-0.005").value();
  EXPECT_THAT(Assemble(std::nullopt), HasReason("PREDICTOR_STALE")) << "coded with other steps";
}

TEST_F(CodedBlockTest, WhatCannotBeCodedGoesAsItIs) {
  cells_.data[17] = 0x7c00;  // infinite
  for (CellEncoding wanted : {CellEncoding::kCoded, CellEncoding::kInt8}) {
    const auto encoded = EncodeCells(*move_, wanted, cells_, scratch_);
    ASSERT_OK(encoded);
    EXPECT_EQ(encoded->encoding, CellEncoding::kCanonical);
    EXPECT_TRUE(encoded->bytes.empty());
  }
}

}  // namespace
}  // namespace riskkv::worker::testing

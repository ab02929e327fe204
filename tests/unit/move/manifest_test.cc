// Everything a destination refuses before it allocates.
#include "common/codec/codec_section.h"
#include "common/codec/int8_rows.h"
#include "common/codec/selection_codec.h"
#include "common/engine/fake/fake_engine.h"
#include "common/predictor/selection_set.h"
#include "gtest/gtest.h"
#include "services/worker/core/move_manifest.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::worker {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::IsOk;

class ManifestTest : public ::testing::Test {
 protected:
  ManifestTest() : engine_(FakeEngine::Create({}).value()) {
    profile_.name = "p";
    profile_.omitted_layers = {2, 3};
    terms_.fingerprint = &engine_->facts().fingerprint;
    terms_.n_vocab = 512;
    terms_.mode = MoveMode::kRisk;
    terms_.predictor_set = "set";
    terms_.profile = "p";
    terms_.rules = &profile_;
    terms_.cells_reserved = 1000;
    good_.fingerprint = *terms_.fingerprint;
    good_.mode = MoveMode::kRisk;
    good_.predictor_set = "set";
    good_.profile = "p";
    good_.round = 1;
    good_.frontier = 260;
    good_.segments = {Cells(1, {0, 4}, false), Cells(2, {4, 128}, true), Probe(3, {5, 100}), Cells(4, {128, 260}, false)};
  }
  const KvLayout& layout() const { return terms_.fingerprint->layout; }
  Segment Sized(Segment s) const {
    s.bytes = s.tokens() * static_cast<int64_t>(s.layers.size()) * layout().bytes_per_token_layer();
    s.sha256 = std::string(64, '0');
    return s;
  }
  Segment Cells(uint32_t id, TokenRange range, bool rebuild) const {
    Segment s;
    s.id = id;
    s.range = range;
    s.rebuild = rebuild;
    s.layers = rebuild ? LayersExcept(layout(), profile_.omitted_layers) : AllLayers(layout());
    return Sized(s);
  }
  Segment Probe(uint32_t id, std::vector<int64_t> positions) const {
    Segment s;
    s.id = id;
    s.kind = SegmentKind::kProbe;
    s.positions = std::move(positions);
    s.layers = profile_.omitted_layers;
    return Sized(s);
  }
  absl::Status Check(const RoundManifest& m) const { return CheckManifest(terms_, {}, m); }
  absl::Status With(const std::function<void(RoundManifest&)>& change) const {
    RoundManifest m = good_;
    change(m);
    return Check(m);
  }

  std::unique_ptr<FakeEngine> engine_;
  Profile profile_;
  AttemptTerms terms_;
  RoundManifest good_;
};

TEST_F(ManifestTest, GoodOnePasses) { EXPECT_THAT(Check(good_), IsOk()); }

TEST_F(ManifestTest, HeadMustAgree) {
  EXPECT_THAT(With([](auto& m) { m.fingerprint.weights_digest = "other"; }), HasReason("MODEL_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.mode = MoveMode::kReplay; }), HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.profile = "q"; }), HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.round = 2; }), HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.frontier = 2000; }), HasReason("NO_BLOCKS"));
  terms_.frontier = 300;
  EXPECT_THAT(Check(good_), HasReason("MANIFEST_MISMATCH")) << "the frontier never goes back";
  terms_.frontier = 0;
  terms_.final_declared = true;
  EXPECT_THAT(Check(good_), HasReason("MANIFEST_MISMATCH")) << "nothing follows the final round";
}

TEST_F(ManifestTest, SegmentsTileTheRange) {
  EXPECT_THAT(With([](auto& m) { m.segments.pop_back(); }), HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.segments.erase(m.segments.begin()); }), HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.segments[3].id = 3; }), HasReason("MANIFEST_MISMATCH")) << "ids grow";
  EXPECT_THAT(With([&](auto& m) { m.segments[3] = Cells(4, {120, 260}, false); }), HasReason("MANIFEST_MISMATCH")) << "overlap";
  EXPECT_THAT(With([&](auto& m) { m.segments[3] = Cells(4, {128, 300}, false); }), HasReason("BAD_RANGE"));
  EXPECT_THAT(With([](auto& m) { m.segments[3].range = {-5, 260}; }), HasReason("BAD_RANGE"));
}

TEST_F(ManifestTest, SizesAreComputedNotBelieved) {
  EXPECT_THAT(With([](auto& m) { m.segments[0].bytes += 2; }), HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.segments[0].bytes = int64_t{1} << 60; }), HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.segments[0].sha256 = "short"; }), HasReason("BAD_RANGE"));
  EXPECT_THAT(With([](auto& m) { m.segments[0].layers = {0, 99}; }), HasReason("BAD_RANGE"));
  EXPECT_THAT(With([](auto& m) { m.segments[0].layers.clear(); }), HasReason("BAD_RANGE"));
  ManifestLimits limits;
  limits.max_segments = 3;
  EXPECT_THAT(CheckManifest(terms_, limits, good_), HasReason("BAD_RANGE"));
  limits = {};
  limits.max_round_bytes = 1000;
  EXPECT_THAT(CheckManifest(terms_, limits, good_), HasReason("BAD_RANGE"));
}

TEST_F(ManifestTest, LayersThatAreMissingMustBeTheProfilesAndProbed) {
  EXPECT_THAT(With([](auto& m) { m.segments[1].rebuild = false; }), HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([&](auto& m) {
                m.segments[1].layers = LayersExcept(layout(), {2});
                m.segments[1] = Sized(m.segments[1]);
              }),
              HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.segments.erase(m.segments.begin() + 2); }), HasReason("MANIFEST_MISMATCH")) << "no probe";
  EXPECT_THAT(With([&](auto& m) { m.segments[2] = Probe(3, {5, 128}); }), HasReason("BAD_RANGE")) << "outside the block";
  EXPECT_THAT(With([&](auto& m) { m.segments[2] = Probe(3, {100, 5}); }), HasReason("BAD_RANGE"));
  EXPECT_THAT(With([](auto& m) { m.mode = MoveMode::kFull; }), HasReason("MANIFEST_MISMATCH")) << "FULL rebuilds nothing";
}

TEST_F(ManifestTest, RebuiltTokensAreNotProbed) {
  RoundManifest m = good_;
  m.provenance = {{{4, 64}, "set", "p"}};
  EXPECT_THAT(Check(m), HasReason("BAD_RANGE")) << "position 5 is rebuilt";
  m.segments[2] = Probe(3, {64, 100});
  EXPECT_THAT(Check(m), IsOk());
  m.provenance[0].range.end = 128;
  m.segments.erase(m.segments.begin() + 2);
  EXPECT_THAT(Check(m), IsOk()) << "nothing native in the block";
  m.provenance[0].profile = "q";
  EXPECT_THAT(Check(m), HasReason("STATE_NOT_TRANSFERABLE"));
}

// Rounds of a CODED attempt: the first block in 8 bits, then one coded with its probe, then one as it is.
class CodedManifestTest : public ManifestTest {
 protected:
  CodedManifestTest() {
    auto loaded = std::make_shared<LoadedSet>();
    auto bytes = WithSelectionCodec(**MakeSelectionSet(engine_->facts()));
    loaded->set = PredictorSet::FromBytes(*bytes, "set").value();
    loaded->codec = OpenCodec(*loaded->set).value();
    terms_.coded = OpenCodedMove(loaded, "coded-0.002").value();
    terms_.mode = good_.mode = MoveMode::kCoded;
    terms_.rules = nullptr;
    profile_.omitted_layers = {2, 3};  // of Probe
    good_.segments = {Cells(1, {0, 4}, false), Cells(2, {4, 128}, false), Probe(3, {5, 100}), Cells(4, {128, 260}, false)};
    good_.segments[0].encoding = CellEncoding::kInt8;
    good_.segments[0].bytes = Int8Bytes(layout(), 4);
    good_.segments[1].encoding = CellEncoding::kCoded;
    good_.segments[1].bytes = 777;
  }
};

TEST_F(CodedManifestTest, GoodOnePasses) { EXPECT_THAT(Check(good_), IsOk()); }

TEST_F(CodedManifestTest, EncodedBytesAreBounded) {
  const int64_t canonical = 124 * layout().bytes_per_token();
  EXPECT_THAT(With([&](auto& m) { m.segments[1].bytes = canonical; }), IsOk());
  EXPECT_THAT(With([&](auto& m) { m.segments[1].bytes = canonical + 1; }), HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.segments[1].bytes = 0; }), HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.segments[0].bytes += 1; }), HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.segments[2].encoding = CellEncoding::kCoded; }), HasReason("MANIFEST_MISMATCH")) << "a probe is exact";
  EXPECT_THAT(With([](auto& m) { m.segments[3].encoding = CellEncoding::kCoded; }), HasReason("MANIFEST_MISMATCH")) << "132 tokens";
  EXPECT_THAT(With([](auto& m) { m.segments[3].encoding = static_cast<CellEncoding>(7); }), HasReason("MANIFEST_MISMATCH"));
}

TEST_F(CodedManifestTest, CodedBlocksAreWholeAndProbed) {
  EXPECT_THAT(With([](auto& m) { m.segments.erase(m.segments.begin() + 2); }), HasReason("MANIFEST_MISMATCH")) << "no probe";
  EXPECT_THAT(With([&](auto& m) { m.segments[2] = Probe(3, {5, 128}); }), HasReason("BAD_RANGE")) << "outside the block";
  EXPECT_THAT(With([&](auto& m) { m.segments[1].layers = LayersExcept(layout(), {2}); }), HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.segments[1].rebuild = true; }), HasReason("MANIFEST_MISMATCH"));
  EXPECT_THAT(With([](auto& m) { m.provenance = {{{4, 128}, "set", "p"}}; }), IsOk()) << "decoded cells are probed too";
  EXPECT_THAT(With([](auto& m) { m.provenance = {{{4, 128}, "set", "q"}}; }), HasReason("STATE_NOT_TRANSFERABLE"));
}

TEST_F(CodedManifestTest, OtherModesCarryNothingCoded) {
  EXPECT_THAT(With([](auto& m) { m.mode = MoveMode::kFull; }), HasReason("MANIFEST_MISMATCH"));
  terms_.mode = MoveMode::kFull;
  EXPECT_THAT(Check(good_), HasReason("MANIFEST_MISMATCH"));
}

TEST_F(ManifestTest, ReplayCarriesTokensOnly) {
  terms_.mode = MoveMode::kReplay;
  RoundManifest m = good_;
  m.mode = MoveMode::kReplay;
  m.segments.clear();
  m.frontier = 3;
  m.tokens = {1, 2, 3};
  EXPECT_THAT(Check(m), IsOk());
  m.tokens[1] = 512;
  EXPECT_THAT(Check(m), HasReason("BAD_RANGE"));
  m.tokens = {1, 2};
  EXPECT_THAT(Check(m), HasReason("MANIFEST_MISMATCH"));
}

}  // namespace
}  // namespace riskkv::worker

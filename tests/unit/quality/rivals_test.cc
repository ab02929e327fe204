#include "common/quality/rivals.h"

#include <filesystem>

#include "common/codec/codec_fitter.h"
#include "common/engine/fake/fake_engine.h"
#include "common/predictor/selection_set.h"
#include "common/quality/coded_meter.h"
#include "common/quality/quantize.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

class RivalsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(engine_, FakeEngine::Create({}));
    ASSERT_TRUE(kernels::CreateBackend(kernels::BackendChoice::kCpu, 1, &backend_).ok());
    ASSERT_OK_AND_ASSIGN(set_, MakeSelectionSet(engine_->facts(), {4, 16}));
    ASSERT_OK_AND_ASSIGN(uploaded_, UploadedSet::Create(*backend_, *set_));
    std::vector<Token> tokens;
    for (int i = 0; i < 99; ++i) tokens.push_back(i);
    WindowScorer scorer(*engine_);
    ASSERT_OK_AND_ASSIGN(exact_, scorer.Prefill(tokens));
  }
  PolicyContext context(CacheEnds ends = {{4, 16}, false}) { return {*backend_, uploaded_->handle(), *set_, ends, 99}; }
  // Layers and tokens whose cells differ from the exact ones.
  bool Differs(const KvBlock& cache, int layer, int64_t from, int64_t to) const {
    const std::size_t kv = static_cast<std::size_t>(exact_.kv), a = static_cast<std::size_t>(from) * kv, b = static_cast<std::size_t>(to) * kv;
    return !std::equal(exact_.k(layer) + a, exact_.k(layer) + b, cache.k(layer) + a) ||
           !std::equal(exact_.v(layer) + a, exact_.v(layer) + b, cache.v(layer) + a);
  }

  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<kernels::Backend> backend_;
  std::shared_ptr<const PredictorSet> set_;
  std::unique_ptr<UploadedSet> uploaded_;
  KvBlock exact_;
};

// 10 layers of 4 elements in K and V, 99 cells of which 20 are ends.
TEST_F(RivalsTest, BytesAreTheTrueOnes) {
  const int64_t full = 99 * 10 * 2 * 4 * 2, middle = 79 * 10 * 2 * 4 * 2, ends = full - middle;
  const CachePolicy int8 = Int8Policy(context());
  EXPECT_EQ(int8.full_bytes, full);
  EXPECT_EQ(int8.sent_bytes, 99 * 10 * 2 * (4 + 2)) << "no ends: every head of 4 has a scale";
  const CachePolicy int4 = LowBitsPolicy(context(), {4, 32});
  EXPECT_EQ(int4.middle_full, middle);
  // 4 channels of 79 tokens: groups of 32, 32 and 15; each token's 4 values are one group.
  EXPECT_EQ(int4.sent_bytes, ends + 10 * (4 * (20 + 20 + 12) + 79 * 6));
  const CachePolicy omitted = OmissionPolicy(context(), {0});
  EXPECT_EQ(omitted.sent_bytes, full - 79 * 2 * 16);
  const CachePolicy both = Int8OmissionPolicy(context(), {0, 1});
  EXPECT_EQ(both.sent_bytes, ends + Int8Bytes(set_->layout(), 79, 6));
  EXPECT_LT(both.sent_bytes, omitted.sent_bytes);
  EXPECT_EQ(LowBitsOmissionPolicy(context(), {0, 1}, {4, 32}).sent_bytes,
            ends + LowBitsBytes(set_->layout(), 79, 6, {4, 32}));
  // int8 ends: two pieces with a header of 24 bytes each (codec/int8_rows.h).
  const CachePolicy short_ends = OmissionPolicy(context({{4, 16}, true}), {0});
  EXPECT_EQ(short_ends.middle_sent, omitted.middle_sent);
  EXPECT_EQ(short_ends.sent_bytes, omitted.middle_sent + 2 * 24 + 20 * 10 * 2 * (4 + 2));
}

TEST_F(RivalsTest, Int8EndsAreDecodedFromInt8) {
  for (const CachePolicy& p :
       {OmissionPolicy(context({{4, 16}, true}), {0}), LowBitsPolicy(context({{4, 16}, true}), {4, 32})}) {
    ASSERT_OK_AND_ASSIGN(const KvBlock cache, p.decode(exact_));
    KvBlock expected = exact_;
    for (const TokenRange& r : {TokenRange{0, 4}, TokenRange{83, 99}})
      ASSERT_OK(QuantiseInt8(set_->layout(), r, AllLayers(set_->layout()), expected));
    for (int l = 0; l < 10; ++l) {
      const std::size_t last = 83 * static_cast<std::size_t>(exact_.kv);
      EXPECT_TRUE(std::equal(expected.k(l) + last, expected.k(l) + 99 * exact_.kv, cache.k(l) + last)) << p.name << l;
      EXPECT_TRUE(std::equal(expected.v(l), expected.v(l) + 4 * exact_.kv, cache.v(l))) << p.name << l;
    }
  }
}

// What a coded profile costs by the rivals' meter is what the coded meter says, and its bytes outlive the process.
TEST_F(RivalsTest, ACodedProfileIsMeasuredAsTheCodedMeterDoes) {
  const std::string folder = ::testing::TempDir() + "rivals-coded";
  std::filesystem::remove_all(folder);
  const KvLayout& layout = set_->layout();
  CodecFitter fitter(layout, PairPlan(layout.n_layer), 1);
  ASSERT_OK_AND_ASSIGN(const PreRopeBlock rows, UndoRope(layout, exact_));
  fitter.Add(rows, 4, 99);
  ASSERT_OK_AND_ASSIGN(CodecWeights weights, fitter.Solve(1e-2));
  ASSERT_OK_AND_ASSIGN(const auto codec, BlockCodec::Create(layout, std::move(weights)));
  CodedProfile profile;
  profile.name = "step 0.3";
  profile.steps.assign(codec->weights().units.size(), 0.3f);
  TextFile text{"text", "", {{"", std::string(700, 'x'), ""}, {"", std::string(500, 'y'), ""}}, 0};
  ASSERT_OK_AND_ASSIGN(const WindowSet windows, CutWindows(*engine_, text, {100, 40}, 1, 0));
  Progress progress;
  ASSERT_OK_AND_ASSIGN(const auto cells, CellStore::Create("", layout));
  CodedMeter coded_meter(*engine_, *cells, windows, "test", {200, 1}, progress);
  ASSERT_OK_AND_ASSIGN(const CodedMeasurement expected, coded_meter.Measure(*codec, profile));
  for (int run = 0; run < 2; ++run) {  // the second takes what the first kept
    ASSERT_OK_AND_ASSIGN(const auto store, FolderStore::Open(folder));
    RiskMeter meter(*engine_, *store, windows, "test", {200, 1}, progress);
    ASSERT_OK_AND_ASSIGN(const MeasuredPolicy found, MeasureCodedPolicy(meter, *store, *codec, "digest", profile));
    EXPECT_NEAR(found.measurement.stats.mean, expected.stats.mean, 1e-9);
    EXPECT_EQ(found.policy.sent_bytes, expected.bytes_sent / static_cast<int64_t>(windows.windows.size()));
    EXPECT_EQ(found.policy.full_bytes, exact_.bytes());
    EXPECT_LT(found.policy.middle_sent, found.policy.sent_bytes);
    EXPECT_EQ(CacheEndsName(found.policy.ends), "4/36 int8");
  }
  std::filesystem::remove_all(folder);
}

TEST_F(RivalsTest, EndsAreExactAndTheRestIsWhatIsDecoded) {
  ASSERT_OK_AND_ASSIGN(const KvBlock int4, LowBitsPolicy(context(), {4, 32}).decode(exact_));
  ASSERT_OK_AND_ASSIGN(const KvBlock omitted, OmissionPolicy(context(), {0}).decode(exact_));
  ASSERT_OK_AND_ASSIGN(const KvBlock both, Int8OmissionPolicy(context(), {0}).decode(exact_));
  for (int l = 0; l < 10; ++l) {
    for (const KvBlock* cache : {&int4, &omitted, &both}) {
      EXPECT_FALSE(Differs(*cache, l, 0, 4)) << l;
      EXPECT_FALSE(Differs(*cache, l, 83, 99)) << l;
    }
    EXPECT_TRUE(Differs(int4, l, 4, 83)) << l;
    EXPECT_FALSE(Differs(omitted, l, 4, 83)) << "the fake's targets are copies of its anchors";
    EXPECT_TRUE(Differs(both, l, 4, 83)) << "int8 anchors, and what is predicted from them";
  }
  ASSERT_OK_AND_ASSIGN(const KvBlock int8, Int8Policy(context()).decode(exact_));
  EXPECT_TRUE(Differs(int8, 0, 0, 4));
}

TEST_F(RivalsTest, KeysTellPoliciesApart) {
  std::vector<std::string> keys;
  for (const CachePolicy& p :
       {Int8Policy(context()), LowBitsPolicy(context(), {4, 32}), LowBitsPolicy(context(), {4, 64}),
        OmissionPolicy(context(), {0}), OmissionPolicy(context(), {1}), Int8OmissionPolicy(context(), {0}),
        LowBitsPolicy(context(), {3, 64}), LowBitsPolicy(context({{4, 16}, true}), {4, 64}),
        OmissionPolicy(context({{4, 16}, true}), {0}), LowBitsOmissionPolicy(context(), {0}, {4, 32}),
        LowBitsOmissionPolicy(context(), {0}, {4, 64})})
    keys.push_back(p.key);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

}  // namespace
}  // namespace riskkv

#include "common/predictor/rebuild.h"

#include <algorithm>

#include "common/engine/fake/fake_engine.h"
#include "common/predictor/selection_set.h"
#include "kernels/fp16.h"
#include "tests/testing/engine_driver.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

class RebuildTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(engine_, FakeEngine::Create({}));
    ASSERT_TRUE(kernels::CreateBackend(kernels::BackendChoice::kCpu, 1, &backend_).ok());
    ASSERT_OK_AND_ASSIGN(const SeqId seq, engine_->OpenSequence());
    std::vector<Token> tokens(300);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>(i % 200);
    ASSERT_OK(testing::Feed(*engine_, seq, tokens));
    ASSERT_OK_AND_ASSIGN(exact_, engine_->Export(seq, {0, 300}, AllLayers(layout())));
    ASSERT_OK_AND_ASSIGN(set_, MakeSelectionSet(engine_->facts()));
    ASSERT_OK_AND_ASSIGN(uploaded_, UploadedSet::Create(*backend_, *set_));
  }
  const KvLayout& layout() const { return engine_->facts().fingerprint.layout; }
  const Profile& profile(const char* name = "risk-0.005") const { return *set_->FindProfile(name).value(); }
  absl::StatusOr<KvBlock> Rebuild(TokenRange range, const Profile& p) {
    ASSIGN_OR_RETURN(const KvBlock shipped, Slice(exact_, range, ShippedLayers(*set_, p)));
    return RebuildBlock(*backend_, uploaded_->handle(), *set_, p, shipped);
  }

  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<kernels::Backend> backend_;
  std::shared_ptr<const PredictorSet> set_;
  std::unique_ptr<UploadedSet> uploaded_;
  KvBlock exact_;
};

TEST_F(RebuildTest, OmittedLayersComeBackBitForBit) {
  for (const char* name : {"exact", "risk-0.002", "risk-0.005"}) {
    const Profile& p = profile(name);
    const std::vector<int> shipped = ShippedLayers(*set_, p);
    EXPECT_EQ(shipped.size() + p.omitted_layers.size(), 10u);
    for (TokenRange range :
         {TokenRange{0, 300}, TokenRange{4, 172}, TokenRange{130, 131}, TokenRange{7, 7}}) {
      ASSERT_OK_AND_ASSIGN(const KvBlock rebuilt, Rebuild(range, p));
      ASSERT_OK_AND_ASSIGN(const KvBlock want, Slice(exact_, range, AllLayers(layout())));
      EXPECT_EQ(rebuilt.data, want.data) << name << " " << range.begin;
      EXPECT_EQ(rebuilt.layers, AllLayers(layout()));
    }
  }
}

TEST_F(RebuildTest, WrongLayersAreRefused) {
  EXPECT_THAT(RebuildBlock(*backend_, uploaded_->handle(), *set_, profile(), exact_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("risk-0.005")));
  ASSERT_OK_AND_ASSIGN(KvBlock shipped, Slice(exact_, {0, 10}, ShippedLayers(*set_, profile())));
  EXPECT_FALSE(RebuildBlock(*backend_, 9999, *set_, profile(), shipped).ok());
  shipped.data.pop_back();
  EXPECT_FALSE(RebuildBlock(*backend_, uploaded_->handle(), *set_, profile(), shipped).ok());
}

TEST_F(RebuildTest, ProbePassesAnHonestRebuild) {
  ASSERT_OK_AND_ASSIGN(const KvBlock rebuilt, Rebuild({128, 256}, profile()));
  ASSERT_OK_AND_ASSIGN(const ProbeRows rows, GatherRows(exact_, {130, 200, 255}, profile().omitted_layers));
  EXPECT_EQ(rows.elements(), 4 * 2 * 3 * layout().kv());
  ASSERT_OK_AND_ASSIGN(const auto errors, ProbeError(*set_, rebuilt, rows));
  ASSERT_EQ(errors.size(), 4u);
  for (const LayerError& e : errors) EXPECT_EQ(e.k + e.v, 0);
  EXPECT_EQ(ProbeRatio(*set_, errors), 0);
  EXPECT_OK(CheckProbe(*set_, profile(), errors));
}

TEST_F(RebuildTest, ProbeRefusesAWrongPredictorNamingLayerErrorAndBound) {
  ASSERT_OK_AND_ASSIGN(const auto wrong,
                       MakeSelectionSet(engine_->facts(), {}, kernels::WeightType::kF32, 0.5f));
  ASSERT_OK_AND_ASSIGN(const auto uploaded, UploadedSet::Create(*backend_, *wrong));
  ASSERT_OK_AND_ASSIGN(const KvBlock shipped, Slice(exact_, {128, 256}, ShippedLayers(*wrong, profile())));
  ASSERT_OK_AND_ASSIGN(const KvBlock rebuilt,
                       RebuildBlock(*backend_, uploaded->handle(), *wrong, profile(), shipped));
  ASSERT_OK_AND_ASSIGN(const ProbeRows rows, GatherRows(exact_, {130, 200}, profile().omitted_layers));
  ASSERT_OK_AND_ASSIGN(const auto errors, ProbeError(*wrong, rebuilt, rows));
  const absl::Status status = CheckProbe(*wrong, profile(), errors);
  EXPECT_THAT(status, HasReason("VERIFY_GATE"));
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("of layer "), HasSubstr("has error 0."),
                                                          HasSubstr("bound is 0.0200"))));
  EXPECT_GT(ProbeRatio(*wrong, errors), 1);
}

// Half the values lost: |x/2|^2 over the variance is a quarter, on average.
TEST_F(RebuildTest, ErrorIsRelativeToTheVariance) {
  KvBlock halved = exact_;
  for (uint16_t& v : halved.data) v = kernels::FloatToHalf(kernels::HalfToFloat(v) / 2);
  std::vector<int64_t> all(300);
  for (int64_t i = 0; i < 300; ++i) all[static_cast<std::size_t>(i)] = i;
  ASSERT_OK_AND_ASSIGN(const ProbeRows rows, GatherRows(exact_, all, {2}));
  ASSERT_OK_AND_ASSIGN(const auto errors, ProbeError(*set_, halved, rows));
  EXPECT_NEAR(errors[0].k, 0.25, 0.03);
  EXPECT_NEAR(errors[0].v, 0.25, 0.03);
  EXPECT_EQ(errors[0].tokens, 300);
}

TEST_F(RebuildTest, NothingUnprobedPasses) {
  EXPECT_THAT(CheckProbe(*set_, profile(), {}), HasReason("VERIFY_GATE"));
  std::vector<LayerError> errors;
  for (int l : profile().omitted_layers) errors.push_back({l, 0, 0, 2});
  EXPECT_OK(CheckProbe(*set_, profile(), errors));
  errors[1].v = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(CheckProbe(*set_, profile(), errors), HasReason("VERIFY_GATE"));
  errors[1].v = 0;
  errors[2].tokens = 0;
  EXPECT_THAT(CheckProbe(*set_, profile(), errors), HasReason("VERIFY_GATE"));
}

TEST_F(RebuildTest, BadProbesAreRefused) {
  ASSERT_OK_AND_ASSIGN(ProbeRows rows, GatherRows(exact_, {1, 2}, {2}));
  rows.data.pop_back();
  EXPECT_FALSE(ProbeError(*set_, exact_, rows).ok());
  EXPECT_FALSE(GatherRows(exact_, {300}, {2}).ok());
  EXPECT_FALSE(GatherRows(exact_, {2, 1}, {2}).ok());
  EXPECT_FALSE(GatherRows(exact_, {1}, {10}).ok());
  ASSERT_OK_AND_ASSIGN(const ProbeRows anchor, GatherRows(exact_, {1}, {0}));
  EXPECT_FALSE(ProbeError(*set_, exact_, anchor).ok());
}

TEST(ProbePositions, AreDistinctSpreadAndRepeatable) {
  for (int n : {1, 2, 5, 128, 200}) {
    const std::vector<int64_t> a = ProbePositions({100, 228}, n, 7);
    EXPECT_EQ(a, ProbePositions({100, 228}, n, 7));
    EXPECT_EQ(a.size(), static_cast<std::size_t>(std::min(n, 128)));
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_GE(a[i], 100);
      EXPECT_LT(a[i], 228);
      if (i > 0) {
        EXPECT_GT(a[i], a[i - 1]);
      }
    }
  }
  EXPECT_NE(ProbePositions({100, 228}, 2, 7), ProbePositions({100, 228}, 2, 8));
  EXPECT_TRUE(ProbePositions({5, 5}, 2, 1).empty());
}

}  // namespace
}  // namespace riskkv

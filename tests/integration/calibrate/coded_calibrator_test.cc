#include "services/calibrate/coded_calibrator.h"

#include <filesystem>

#include "common/codec/codec_section.h"
#include "common/predictor/selection_set.h"
#include "fmt/format.h"
#include "tests/integration/calibrate/smooth_engine.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::calibrate {
namespace {

using ::riskkv::testing::IsOk;
using ::riskkv::testing::SmoothEngine;
using ::riskkv::testing::StatusIs;

std::string CodedText(int seed, int articles) {
  std::string text;
  for (int a = 0; a < articles; ++a) {
    text += fmt::format(" = Coded article {} of {} = \n\n", a, seed);
    uint32_t state = static_cast<uint32_t>(seed * 1000 + a);
    for (int w = 0; w < 120; ++w) text += fmt::format("w{} ", (state = state * 1664525u + 1013904223u) >> 20);
    text += "\n";
  }
  return text;
}

// Is interrupted after some steps, and counts those that needed no work.
class CodedProgress : public Progress {
 public:
  explicit CodedProgress(int limit) : limit_(limit) {}
  void Step() override { ++steps_; }
  void Skip() override { ++skipped; }
  bool cancelled() const override { return steps_ >= limit_; }
  int skipped = 0;

 private:
  const int limit_;
  int steps_ = 0;
};

class CodedCalibratorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.shape = {100, 40};
    options_.engine.threads = 1;
    options_.resamples = 500;
    options_.windows_sensitivity = 2;
    ASSERT_OK_AND_ASSIGN(splits_.fit, ParseArticles(CodedText(1, 8), "fit.txt"));
    ASSERT_OK_AND_ASSIGN(splits_.select, ParseArticles(CodedText(2, 4), "select.txt"));
    ASSERT_OK_AND_ASSIGN(splits_.confirm, ParseArticles(CodedText(3, 4), "confirm.txt"));
  }

  absl::StatusOr<CodedCalibration> Run(double penalty, const PredictorSet* base = nullptr, Progress* progress = nullptr) {
    ASSIGN_OR_RETURN(auto fake, FakeEngine::Create({}));
    engine_ = std::make_unique<SmoothEngine>(std::move(fake), penalty);
    CodedCalibrator calibrator(*engine_, base, options_, progress != nullptr ? *progress : progress_);
    return calibrator.Run(splits_);
  }

  CalibrateOptions options_;
  Splits splits_;
  Progress progress_;
  std::unique_ptr<SmoothEngine> engine_;
};

// The fake's cells are large integers: every step of the ladder leaves them about a quarter off, a change of NLL of
// 0.0025 at this penalty.
TEST_F(CodedCalibratorTest, ABudgetGetsTheCoarsestStepThatBothSplitsAdmitOrNone) {
  options_.epsilons = {0.0001, 0.004};
  ASSERT_OK_AND_ASSIGN(const CodedCalibration r, Run(0.01));
  EXPECT_FALSE(FindCodedProfile(*r.set, "coded-0.0001").ok());
  ASSERT_OK_AND_ASSIGN(const CodedProfile p, FindCodedProfile(*r.set, "coded-0.004"));
  for (const CodedPoint& point : r.path) {
    const bool admitted = point.select.stats.upper90 <= p.epsilon && point.profile.confirm.windows > 0 &&
                          point.profile.confirm.upper90 <= p.epsilon;
    EXPECT_TRUE(!admitted || point.select.times_fewer() <= p.times_fewer);
  }
  EXPECT_LE(p.select.upper90, p.epsilon);
  EXPECT_LE(p.confirm.upper90, p.epsilon);
  EXPECT_GT(p.confirm.windows, 0);
  EXPECT_EQ(p.gate, "stable-split");
  EXPECT_TRUE(p.gated);
  // Coarser steps send less.
  ASSERT_GE(r.path.size(), 2u);
  EXPECT_GT(r.path.front().select.times_fewer(), r.path.back().select.times_fewer());
  EXPECT_EQ(r.sensitivity.size(), 20u);
  EXPECT_THAT(r.set->CheckModel(engine_->facts().fingerprint), IsOk());
  EXPECT_THAT(OpenCodec(*r.set), IsOk());
}

TEST_F(CodedCalibratorTest, WhenNothingIsAdmissibleThereIsNoProfile) {
  ASSERT_OK_AND_ASSIGN(const CodedCalibration r, Run(1e9));
  EXPECT_TRUE(r.profiles.empty());
  EXPECT_GT(r.path.size(), 3u);
  EXPECT_TRUE(HasCodec(*r.set));
}

TEST_F(CodedCalibratorTest, AnInterruptedFitGoesOnAndEndsWithTheSameBytes) {
  ASSERT_OK_AND_ASSIGN(const CodedCalibration unbroken, Run(0.01));
  options_.work_dir = ::testing::TempDir() + "coded-calibrator-work";
  std::filesystem::remove_all(options_.work_dir);
  CodedProgress first(3), second(1 << 20);
  EXPECT_THAT(Run(0.01, nullptr, &first), StatusIs(absl::StatusCode::kCancelled));
  ASSERT_OK_AND_ASSIGN(const CodedCalibration resumed, Run(0.01, nullptr, &second));
  EXPECT_EQ(second.skipped, 3);
  EXPECT_EQ(resumed.bytes, unbroken.bytes);
  std::filesystem::remove_all(options_.work_dir);
}

// Sums of another text must not be taken for this one's.
TEST_F(CodedCalibratorTest, ACheckpointOfOtherTextIsNotTaken) {
  ASSERT_OK_AND_ASSIGN(const CodedCalibration unbroken, Run(0.01));
  options_.work_dir = ::testing::TempDir() + "coded-calibrator-other";
  std::filesystem::remove_all(options_.work_dir);
  Splits own = splits_;
  ASSERT_OK_AND_ASSIGN(splits_.fit, ParseArticles(CodedText(9, 8), "other.txt"));
  CodedProgress first(3), second(1 << 20);
  EXPECT_THAT(Run(0.01, nullptr, &first), StatusIs(absl::StatusCode::kCancelled));
  splits_ = std::move(own);
  ASSERT_OK_AND_ASSIGN(const CodedCalibration r, Run(0.01, nullptr, &second));
  EXPECT_EQ(second.skipped, 0);
  EXPECT_EQ(r.bytes, unbroken.bytes);
  std::filesystem::remove_all(options_.work_dir);
}

TEST_F(CodedCalibratorTest, TheSetItIsAddedToKeepsItsOwn) {
  ASSERT_OK_AND_ASSIGN(const auto fake, FakeEngine::Create({}));
  ASSERT_OK_AND_ASSIGN(const auto base, MakeSelectionSet(fake->facts()));
  options_.windows_sensitivity = 0;
  ASSERT_OK_AND_ASSIGN(const CodedCalibration r, Run(1.0, base.get()));
  EXPECT_EQ(r.set->profiles().size(), base->profiles().size());
  EXPECT_EQ(r.set->weights_bytes(), base->weights_bytes());
  EXPECT_GT(r.codec_bytes, 0);
  EXPECT_TRUE(r.sensitivity.empty());
}

}  // namespace
}  // namespace riskkv::calibrate

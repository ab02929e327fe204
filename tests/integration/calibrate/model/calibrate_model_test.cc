// On a real model: RISKKV_MODEL names a GGUF, RISKKV_TEXT a folder with fit.txt and select.txt (articles).
// Skipped otherwise.
#include <cmath>
#include <cstdlib>

#include "common/predictor/features.h"
#include "services/calibrate/calibrator.h"
#include "services/calibrate/engine_factory.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::calibrate {
namespace {

class ModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* model = std::getenv("RISKKV_MODEL");
    const char* text = std::getenv("RISKKV_TEXT");
    if (model == nullptr || text == nullptr) GTEST_SKIP() << "RISKKV_MODEL and RISKKV_TEXT are not set";
    options_.engine.model = model;
    options_.engine.threads = 1;
    options_.fit = std::string(text) + "/fit.txt";
    options_.select = std::string(text) + "/select.txt";
    options_.shape = {256, 64};
    options_.ends = {4, 32};
    options_.resamples = 1000;
    ASSERT_OK_AND_ASSIGN(engine_, MakeEngine(options_.engine, 512));
    ASSERT_OK_AND_ASSIGN(splits_, ReadSplits(options_));
  }
  CalibrateOptions options_;
  std::unique_ptr<Engine> engine_;
  Splits splits_;
};

// Import, export and scoring are one layout: the exact cache scored twice gives the same bits, and a cache
// that is exported, imported and exported again is the same.
TEST_F(ModelTest, TheExactCacheScoresAlikeTwice) {
  ASSERT_OK_AND_ASSIGN(const WindowSet windows, CutWindows(*engine_, splits_.select, options_.shape, 1, 1));
  WindowScorer scorer(*engine_);
  ASSERT_OK_AND_ASSIGN(const KvBlock exact,
                       scorer.Prefill(std::span<const Token>(windows.windows[0].tokens).first(255)));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> a, scorer.Score(exact, windows.windows[0], options_.shape));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> b, scorer.Score(exact, windows.windows[0], options_.shape));
  EXPECT_EQ(a, b);
  EXPECT_GT(Mean(a), 0.5);
  EXPECT_LT(Mean(a), 6);
  ASSERT_OK_AND_ASSIGN(const SeqId seq, engine_->OpenSequence());
  ASSERT_OK(engine_->Append(seq, exact));
  ASSERT_OK_AND_ASSIGN(const KvBlock again, engine_->Export(seq, exact.range, exact.layers));
  engine_->CloseSequence(seq);
  EXPECT_EQ(again.data, exact.data);
}

// Exact and with noise in its cache, as a rebuilt one would be: the NLL does not depend on the engine's threads.
TEST_F(ModelTest, OneAndTwoThreadsScoreAlike) {
  ASSERT_OK_AND_ASSIGN(const WindowSet windows, CutWindows(*engine_, splits_.select, options_.shape, 1, 2));
  std::vector<double> nll[2];
  for (int threads : {1, 2}) {
    EngineOptions options = options_.engine;
    options.threads = threads;
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Engine> engine, MakeEngine(options, 512));
    WindowScorer scorer(*engine);
    for (const Window& window : windows.windows) {
      ASSERT_OK_AND_ASSIGN(const KvBlock exact, scorer.Prefill(std::span<const Token>(window.tokens).first(255)));
      KvBlock coarse = exact;
      for (uint16_t& v : coarse.data) v &= 0xffc0;  // four bits of mantissa
      for (const KvBlock* cache : std::initializer_list<const KvBlock*>{&exact, &coarse}) {
        ASSERT_OK_AND_ASSIGN(const std::vector<float> scored, scorer.Score(*cache, window, options_.shape));
        nll[threads - 1].push_back(Mean(scored));
      }
    }
  }
  ASSERT_EQ(nll[0].size(), 4u);
  for (std::size_t i = 0; i < nll[0].size(); ++i) EXPECT_NEAR(nll[0][i], nll[1][i], 1e-6) << i;
  EXPECT_NE(nll[0][0], nll[0][1]) << "the coarse cache is another one";
}

TEST_F(ModelTest, AShortCalibrationPredictsMostOfTheVariance) {
  options_.windows_fit = 14;
  options_.windows_select = 2;
  std::unique_ptr<kernels::Backend> backend;
  ASSERT_TRUE(kernels::CreateBackend(kernels::BackendChoice::kCpu, 1, &backend).ok());
  RealClock clock;
  Progress progress;
  Calibrator calibrator(*engine_, *backend, options_, clock, progress);
  ASSERT_OK_AND_ASSIGN(const CalibrationResult r, calibrator.Run(splits_));
  for (const GroupInfo& g : r.set->groups()) {
    EXPECT_LT(g.held_out_error, 0.3) << "layers " << g.spec.targets[0];
    EXPECT_LT(std::abs(g.risk.mean), 0.15);
    for (const LayerCalibration& l : g.layers) {
      EXPECT_GT(l.k_bound, l.k.mean);
      EXPECT_GT(l.v_bound, l.v.mean);
    }
  }
}

}  // namespace
}  // namespace riskkv::calibrate

#include "services/calibrate/calibrator.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "common/engine/fake/fake_engine.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "services/calibrate/evaluator.h"
#include "services/calibrate/tables.h"
#include "tests/integration/calibrate/smooth_engine.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::calibrate {
namespace {

using ::riskkv::testing::SmoothEngine;
using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

// `articles` articles of about 700 bytes, different for each seed.
std::string Text(int seed, int articles) {
  std::string text;
  for (int a = 0; a < articles; ++a) {
    text += fmt::format(" = Article {} of {} = \n\n", a, seed);
    uint32_t state = static_cast<uint32_t>(seed * 1000 + a);
    for (int w = 0; w < 120; ++w) text += fmt::format("w{} ", (state = state * 1664525u + 1013904223u) >> 20);
    text += "\n";
  }
  return text;
}

class CalibratorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.shape = {100, 40};
    options_.ends = {4, 16};
    options_.engine.threads = 1;
    options_.resamples = 500;
    ASSERT_OK_AND_ASSIGN(splits_.fit, ParseArticles(Text(1, 8), "fit.txt"));
    ASSERT_OK_AND_ASSIGN(splits_.select, ParseArticles(Text(2, 4), "select.txt"));
    ASSERT_OK_AND_ASSIGN(splits_.confirm, ParseArticles(Text(3, 4), "confirm.txt"));
    ASSERT_TRUE(kernels::CreateBackend(kernels::BackendChoice::kCpu, 1, &backend_).ok());
  }

  absl::StatusOr<CalibrationResult> Run(double penalty, Progress* progress = nullptr) {
    ASSIGN_OR_RETURN(auto fake, FakeEngine::Create({}));
    engine_ = std::make_unique<SmoothEngine>(std::move(fake), penalty);
    Progress silent;
    Calibrator calibrator(*engine_, *backend_, options_, clock_, progress == nullptr ? silent : *progress);
    return calibrator.Run(splits_);
  }

  CalibrateOptions options_;
  Splits splits_;
  RealClock clock_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<SmoothEngine> engine_;
};

TEST_F(CalibratorTest, ALinearModelIsOmittedWhollyAndConfirmed) {
  ASSERT_OK_AND_ASSIGN(const CalibrationResult r, Run(1.0));
  ASSERT_EQ(r.set->groups().size(), 2u);
  for (const GroupInfo& g : r.set->groups()) {
    EXPECT_LT(g.held_out_error, 1e-6);
    EXPECT_LT(std::abs(g.risk.mean), 1e-3);
    for (const LayerCalibration& l : g.layers) {
      EXPECT_GT(l.k_bound, 0);
      EXPECT_LT(l.v_bound, 1e-3);
    }
  }
  for (const char* name : {"risk-0.002", "risk-0.005"}) {
    ASSERT_OK_AND_ASSIGN(const Profile* p, r.set->FindProfile(name));
    EXPECT_EQ(p->groups, (std::vector<int>{0, 1}));
    EXPECT_TRUE(p->gated);
    EXPECT_EQ(p->gate, "stable-split");
    EXPECT_GT(p->confirm.windows, 0);
    EXPECT_EQ(p->ends, options_.ends);
  }
  EXPECT_EQ(r.set->profiles().count("ungated-safest"), 0u);
  EXPECT_OK(r.set->CheckModel(engine_->facts().fingerprint));
  EXPECT_EQ(r.path.prefixes.size(), 2u);
  const auto j = nlohmann::json::parse(r.set->info().calibration);
  EXPECT_EQ(j["splits"]["confirm"]["sha256"], splits_.confirm->digest);
  EXPECT_EQ(j["lambda_curves"].size(), 2u);
}

TEST_F(CalibratorTest, SameSeedSameBytesWhateverTheThreads) {
  ASSERT_OK_AND_ASSIGN(const CalibrationResult a, Run(1.0));
  options_.engine.threads = 3;
  ASSERT_OK_AND_ASSIGN(const CalibrationResult b, Run(1.0));
  EXPECT_EQ(a.bytes, b.bytes);
  options_.seed = 2;
  ASSERT_OK_AND_ASSIGN(const CalibrationResult c, Run(1.0));
  EXPECT_NE(a.bytes, c.bytes);
}

TEST_F(CalibratorTest, WithoutConfirmTheGateIsUpper90) {
  splits_.confirm.reset();
  options_.dtype = "fp16";
  ASSERT_OK_AND_ASSIGN(const CalibrationResult r, Run(1.0));
  ASSERT_OK_AND_ASSIGN(const Profile* p, r.set->FindProfile("risk-0.005"));
  EXPECT_EQ(p->gate, "upper90");
  EXPECT_EQ(p->confirm.windows, 0);
  EXPECT_STREQ(r.set->weight_type_name(), "f16");
}

TEST_F(CalibratorTest, WhenNothingIsAdmissibleItSaysSo) {
  ASSERT_OK_AND_ASSIGN(const CalibrationResult r, Run(1e9));
  EXPECT_EQ(r.set->profiles().size(), 2u);
  for (const BudgetResult& b : r.budgets) EXPECT_EQ(b.profile, "exact");
  ASSERT_OK_AND_ASSIGN(const Profile* p, r.set->FindProfile("ungated-safest"));
  EXPECT_FALSE(p->gated);
  EXPECT_EQ(p->groups.size(), 1u);
  EXPECT_EQ(p->groups[0], r.path.order[0]);
  EXPECT_EQ(r.set->BestGatedProfile().name, "exact");
  EXPECT_THAT(CalibrationTable(r, "set"),
              HasSubstr("budget 0.002: no candidate passes the stable-split gate: the profile is exact"));
  EXPECT_EQ(CalibrationJson(r, "set")["budgets"][1]["profile"], "exact");
}

TEST_F(CalibratorTest, ATimeBudgetLimitsTheWindows) {
  options_.seconds = 1e-3;
  ASSERT_OK_AND_ASSIGN(const CalibrationResult r, Run(1.0));
  EXPECT_EQ(r.windows.select, 2);
  EXPECT_EQ(r.windows.confirm, 2);
  EXPECT_LT(r.windows.fit, 8);
}

TEST_F(CalibratorTest, EndsThatCoverTheHistoryAreRefused) {
  options_.ends = {4, 128};
  EXPECT_THAT(Run(1.0), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ends 4 and 128")));
}

// Stops after `limit` steps that were really computed.
class StopsSoon : public Progress {
 public:
  explicit StopsSoon(int limit) : limit_(limit) {}
  void Step() override { ++steps; }
  void Skip() override { ++skipped; }
  bool cancelled() const override { return steps >= limit_; }
  int steps = 0, skipped = 0;

 private:
  const int limit_;
};

TEST_F(CalibratorTest, InterruptedItLeavesNothingOpen) {
  StopsSoon progress(12);
  EXPECT_THAT(Run(1.0, &progress), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(engine_->CellsUsed(), 0);
}

// Interrupted again and again, each run goes on where the last one ended, and the set has the bytes of an unbroken run.
TEST_F(CalibratorTest, InterruptedRunsEndWithTheSameBytes) {
  ASSERT_OK_AND_ASSIGN(const CalibrationResult whole, Run(1.0));
  const int scored = engine_->scored();
  const int64_t steps = engine_->steps();
  options_.work_dir = ::testing::TempDir() + "calibrator-work";
  std::filesystem::remove_all(options_.work_dir);
  int total_scored = 0, runs = 0;
  int64_t total_steps = 0;
  for (bool done = false; !done; ++runs) {
    ASSERT_LT(runs, 90);
    StopsSoon progress(9);
    const absl::StatusOr<CalibrationResult> part = Run(1.0, &progress);
    total_scored += engine_->scored();
    total_steps += engine_->steps();
    if (!part.ok()) {
      ASSERT_THAT(part, StatusIs(absl::StatusCode::kCancelled));
      continue;
    }
    done = true;
    EXPECT_EQ(part->bytes, whole.bytes);
  }
  EXPECT_GT(runs, 3);
  EXPECT_EQ(total_scored, scored) << "no window is scored twice";
  EXPECT_EQ(total_steps, steps) << "no cache is computed twice";
  // Once more: nothing is left to compute.
  StopsSoon idle(1);
  ASSERT_OK_AND_ASSIGN(const CalibrationResult again, Run(1.0, &idle));
  EXPECT_EQ(again.bytes, whole.bytes);
  EXPECT_EQ(engine_->scored(), 0);
  EXPECT_EQ(engine_->steps(), 0);
  std::filesystem::remove_all(options_.work_dir);
}

// SIGKILL gives no chance to tidy or save: what is whole in the folder is used, the rest is as if it had not been.
TEST_F(CalibratorTest, KilledRunsEndWithTheSameBytes) {
  class Dies : public StopsSoon {
   public:
    explicit Dies(int at) : StopsSoon(1 << 30), at_(at) {}
    void Step() override {
      StopsSoon::Step();
      if (steps == at_) ::raise(SIGKILL);
    }
    const int at_;
  };
  ASSERT_OK_AND_ASSIGN(const CalibrationResult whole, Run(1.0));
  const int scored = engine_->scored();
  options_.work_dir = ::testing::TempDir() + "calibrator-killed";
  std::filesystem::remove_all(options_.work_dir);
  for (const int at : {3, 35, 45, 20}) {  // in the fit twice, among the scorings twice
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Dies dies(at);
      const bool ended = Run(1.0, &dies).ok();
      ::_exit(ended ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "died at step " << at << ": " << status;
  }
  ASSERT_OK_AND_ASSIGN(const CalibrationResult last, Run(1.0));
  EXPECT_EQ(last.bytes, whole.bytes);
  EXPECT_LT(engine_->scored(), scored) << "the killed runs' scorings are used";
  for (const auto& entry : std::filesystem::directory_iterator(options_.work_dir))
    EXPECT_NE(entry.path().extension(), ".part");
  std::filesystem::remove_all(options_.work_dir);
}

TEST_F(CalibratorTest, AnInterruptedTimeBudgetKeepsItsNumbers) {
  options_.work_dir = ::testing::TempDir() + "calibrator-budget";
  std::filesystem::remove_all(options_.work_dir);
  options_.seconds = 1e-3;
  ASSERT_OK_AND_ASSIGN(const CalibrationResult first, Run(1.0));
  // A clock that says otherwise does not matter any more.
  ASSERT_OK_AND_ASSIGN(const CalibrationResult second, Run(1.0));
  EXPECT_EQ(second.bytes, first.bytes);
  EXPECT_EQ(engine_->scored(), 0);
  std::filesystem::remove_all(options_.work_dir);
}

TEST_F(CalibratorTest, TheSplitsNumbersAreInTheSet) {
  ASSERT_OK_AND_ASSIGN(const CalibrationResult r, Run(200.0));
  for (const auto& [name, p] : r.set->profiles()) {
    if (p.groups.empty()) continue;
    EXPECT_GE(p.select.worst, p.select.p99) << name;
    EXPECT_GE(p.select.p99, p.select.p90) << name;
    EXPECT_GE(p.select.p90, p.select.p50) << name;
    EXPECT_NE(p.select.p90, 0) << name;
  }
  EXPECT_GT(r.time.tokens, 0);
  EXPECT_GT(r.time.engine, 0);
  EXPECT_GE(r.time.total, r.time.engine);
}

TEST_F(CalibratorTest, EvaluateReportsTheProfileOnAnyText) {
  ASSERT_OK_AND_ASSIGN(const CalibrationResult r, Run(1.0));
  EvaluateOptions options;
  options.shape = options_.shape;
  options.windows = 5;
  options.resamples = 200;
  ASSERT_OK_AND_ASSIGN(const TextFile text, ParseArticles(Text(9, 3), "other.txt"));
  Progress progress;
  ASSERT_OK_AND_ASSIGN(const Evaluation e, Evaluate(*engine_, *backend_, *r.set, text, options, progress));
  EXPECT_EQ(e.profile, "risk-0.002") << "equal topologies: the tighter promise";
  const nlohmann::json j = ToJson(e);
  for (const char* key : {"nll_delta_mean", "nll_delta_per_request", "perplexity_exact", "perplexity_rebuilt",
                          "bytes_full", "bytes_sent", "windows", "profile"}) {
    EXPECT_TRUE(j.contains(key)) << key;
  }
  EXPECT_EQ(j["windows"], 5);
  EXPECT_EQ(j["nll_delta_per_request"].size(), 5u);
  EXPECT_EQ(j["bytes_full"], 99 * 10 * 16);
  EXPECT_EQ(j["bytes_sent"], 99 * 10 * 16 - (99 - 20) * 4 * 16);
  EXPECT_NEAR(j["perplexity_exact"], std::exp(2.0), 1e-6);
  options.profile = "exact";
  ASSERT_OK_AND_ASSIGN(const Evaluation exact,
                       Evaluate(*engine_, *backend_, *r.set, text, options, progress));
  EXPECT_EQ(exact.measurement.stats.mean, 0);
  EXPECT_EQ(exact.bytes_sent, exact.bytes_full);
  options.profile = "risk-1";
  EXPECT_THAT(Evaluate(*engine_, *backend_, *r.set, text, options, progress),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(CalibratorTest, EvaluateSaysWhetherTheGateHolds) {
  ASSERT_OK_AND_ASSIGN(const CalibrationResult r, Run(1.0));
  EvaluateOptions options;
  options.shape = options_.shape;
  options.resamples = 200;
  ASSERT_OK_AND_ASSIGN(const TextFile text, ParseArticles(Text(9, 6), "other.txt"));
  Progress progress;
  ASSERT_OK_AND_ASSIGN(const Evaluation good, Evaluate(*engine_, *backend_, *r.set, text, options, progress));
  EXPECT_EQ(ToJson(good)["gate"], "holds");
  // The same set where a rebuild costs more than it did.
  ASSERT_OK_AND_ASSIGN(auto fake, FakeEngine::Create({}));
  SmoothEngine harder(std::move(fake), 1e9);
  ASSERT_OK_AND_ASSIGN(const Evaluation bad, Evaluate(harder, *backend_, *r.set, text, options, progress));
  EXPECT_EQ(ToJson(bad)["gate"], "does not hold");
  options.windows = 3;
  ASSERT_OK_AND_ASSIGN(const Evaluation few, Evaluate(*engine_, *backend_, *r.set, text, options, progress));
  EXPECT_EQ(ToJson(few)["gate"], "too few windows");
  options.profile = "exact";
  ASSERT_OK_AND_ASSIGN(const Evaluation exact, Evaluate(*engine_, *backend_, *r.set, text, options, progress));
  EXPECT_EQ(ToJson(exact)["gate"], "no budget");
}

TEST_F(CalibratorTest, EvaluateFollowsTheHistorysLength) {
  ASSERT_OK_AND_ASSIGN(const CalibrationResult r, Run(1.0));
  EvaluateOptions options;
  options.shape = options_.shape;
  options.resamples = 200;
  options.histories = {20, 60, 100};
  ASSERT_OK_AND_ASSIGN(const TextFile text, ParseArticles(Text(9, 6), "other.txt"));
  Progress progress;
  ASSERT_OK_AND_ASSIGN(const std::vector<Evaluation> e,
                       EvaluateHistories(*engine_, *backend_, *r.set, text, options, progress));
  const nlohmann::json j = ToJson(e);
  ASSERT_EQ(j["by_history"].size(), 3u);
  EXPECT_EQ(j["by_history"][0]["history"], 20);
  EXPECT_EQ(j["by_history"][0]["rebuilt_cells"], 0) << "19 cells are no more than the ends: it moves whole";
  EXPECT_EQ(j["by_history"][0]["bytes_sent"], j["by_history"][0]["bytes_full"]);
  EXPECT_EQ(j["by_history"][2]["rebuilt_cells"], 79);
  options.histories = {100, 5000};
  EXPECT_THAT(EvaluateHistories(*engine_, *backend_, *r.set, text, options, progress),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("history 5000"), HasSubstr("too short"))));
}

TEST_F(CalibratorTest, ATextTooShortForOneWindowIsNamed) {
  ASSERT_OK_AND_ASSIGN(splits_.select, ParseArticles("a few words", "short.txt"));
  EXPECT_THAT(Run(1.0), StatusIs(absl::StatusCode::kInvalidArgument,
                                 AllOf(HasSubstr("short.txt"), HasSubstr("too short"), HasSubstr("140"))));
}

TEST_F(CalibratorTest, ASetOfAnotherModelIsRefused) {
  ASSERT_OK_AND_ASSIGN(const CalibrationResult r, Run(1.0));
  FakeOptions other;
  other.model_seed = 5;
  ASSERT_OK_AND_ASSIGN(const auto engine, FakeEngine::Create(other));
  ASSERT_OK_AND_ASSIGN(const TextFile text, ParseArticles(Text(9, 3), "other.txt"));
  Progress progress;
  EvaluateOptions options;
  options.shape = options_.shape;
  EXPECT_THAT(Evaluate(*engine, *backend_, *r.set, text, options, progress),
              ::riskkv::testing::HasReason("MODEL_MISMATCH"));
}

TEST(PlanWindows, SharesTheTime) {
  PlanInput in;
  in.seconds = 240;
  in.rates = {2.0, 1.7, 2.3, 10};
  in.groups = 7;
  in.budgets = 2;
  in.min_fit = 6;
  in.available = {200, 60, 30};
  const WindowCounts c = PlanWindows(in);
  EXPECT_EQ(c.fit, 28);
  EXPECT_GE(c.select, 4);
  EXPECT_GE(c.confirm, 2);
  const double spent = 10 + c.fit * 2.0 + c.select * (1.7 + 14 * 2.3) + c.confirm * (1.7 + 3 * 2.3);
  EXPECT_LE(spent, 240);
  EXPECT_GT(spent, 190);
  in.seconds = 1;
  EXPECT_EQ(PlanWindows(in).fit, 6);
  EXPECT_EQ(PlanWindows(in).select, 2);
  in.available = {3, 1, 0};
  EXPECT_EQ(PlanWindows(in).fit, 3);
  EXPECT_EQ(PlanWindows(in).select, 1);
  EXPECT_EQ(PlanWindows(in).confirm, 0);
}

TEST(PlanHorizon, ShortensForTheSakeOfWindows) {
  PlanInput in;
  in.rates = {2.0, 1.7, 2.3, 10};
  in.groups = 7;
  in.available = {200, 60, 30};
  in.seconds = 10000;
  EXPECT_EQ(PlanHorizon(in, 512), 512);
  in.seconds = 400;
  EXPECT_EQ(PlanHorizon(in, 512), 256);
  in.seconds = 240;
  EXPECT_EQ(PlanHorizon(in, 512), 128);
  in.seconds = 10;
  EXPECT_EQ(PlanHorizon(in, 512), 128);
  EXPECT_EQ(PlanHorizon(in, 100), 100);
}

}  // namespace
}  // namespace riskkv::calibrate

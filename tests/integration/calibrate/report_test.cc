#include "services/calibrate/report.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "common/engine/fake/fake_engine.h"
#include "fmt/format.h"
#include "services/calibrate/coded_report.h"
#include "services/calibrate/frontier_report.h"
#include "services/calibrate/window_refs.h"
#include "tests/integration/calibrate/smooth_engine.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::calibrate {
namespace {

namespace fs = std::filesystem;
using ::riskkv::testing::SmoothEngine;
using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Articles(int seed, int articles, const std::string& title) {
  std::string text;
  for (int a = 0; a < articles; ++a) {
    text += fmt::format(" = {} {} = \n\n", title, a);
    uint32_t state = static_cast<uint32_t>(seed * 1000 + a);
    for (int w = 0; w < 120; ++w) text += fmt::format("w{} ", (state = state * 1664525u + 1013904223u) >> 20);
    text += "\n";
  }
  return text;
}

std::string FileText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// One calibration with everything a report compares, shared by the tests.
class ReportTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new Shared;
    Shared& s = *shared_;
    s.options.shape = {100, 40};
    s.options.ends = {4, 16};
    s.options.engine.threads = 1;
    s.options.resamples = 500;
    s.options.trials = 30;
    s.options.report = "asked for";
    s.options.histories = {50, 5000};
    s.options.layouts = {"paper", "one-anchor", "all-anchors"};
    ASSERT_OK_AND_ASSIGN(s.splits.fit, ParseArticles(Articles(1, 8, "Fit"), "fit.txt"));
    ASSERT_OK_AND_ASSIGN(s.splits.select, ParseArticles(Articles(2, 5, "Select <b> & \"c\""), "select.txt"));
    ASSERT_OK_AND_ASSIGN(s.splits.confirm, ParseArticles(Articles(3, 4, "Confirm"), "confirm.txt"));
    ASSERT_TRUE(kernels::CreateBackend(kernels::BackendChoice::kCpu, 1, &s.backend).ok());
    ASSERT_OK_AND_ASSIGN(auto fake, FakeEngine::Create({}));
    s.engine = std::make_unique<SmoothEngine>(std::move(fake), 1.0);
    Progress silent;
    Calibrator calibrator(*s.engine, *s.backend, s.options, s.clock, silent);
    ASSERT_OK_AND_ASSIGN(s.result, calibrator.Run(s.splits));
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  ReportInput input() const { return {shared_->options, shared_->splits, shared_->result, shared_->engine->facts()}; }
  const CalibrationResult& result() const { return shared_->result; }

  struct Shared {
    CalibrateOptions options;
    Splits splits;
    RealClock clock;
    std::unique_ptr<kernels::Backend> backend;
    std::unique_ptr<SmoothEngine> engine;
    CalibrationResult result;
  };
  static Shared* shared_;
};

ReportTest::Shared* ReportTest::shared_ = nullptr;

TEST_F(ReportTest, ComparesOnTheHeldWindows) {
  const Comparison& c = result().comparison;
  EXPECT_EQ(c.split, "confirm");
  const std::size_t windows = result().confirm_windows.size();
  ASSERT_GT(windows, 0u);
  std::vector<std::string> names;
  for (const MeasuredPolicy& p : c.policies) {
    names.push_back(p.policy.name);
    EXPECT_EQ(p.measurement.windows.size(), windows) << p.policy.name;
    EXPECT_LT(p.policy.sent_bytes, p.policy.full_bytes) << p.policy.name;
    EXPECT_EQ(p.policy.decode, nullptr) << "it would point at what is gone";
  }
  EXPECT_THAT(names,
              ::testing::IsSupersetOf({"int8", "int4 groups of 32", "int4 groups of 64", "int3 groups of 64",
                                       "int2 groups of 32", "groups 0+1 omitted", "int8 anchors, 2 of 2 groups omitted",
                                       "int4 anchors, 2 of 2 groups omitted"}));
  ASSERT_EQ(c.dtypes.size(), 2u);
  EXPECT_EQ(c.dtypes[0].dtype, "fp32");
  EXPECT_EQ(c.dtypes[0].measurement.stats.mean, result().confirmed.at("0+1").stats.mean) << "the set's own weights";
  EXPECT_EQ(c.dtypes[1].dtype, "fp16");
  EXPECT_EQ(c.dtypes[1].measurement.windows.size(), windows);
  ASSERT_EQ(c.histories.size(), 2u);
  EXPECT_EQ(c.histories[0].rebuilt_cells, 29);
  EXPECT_GT(c.histories[0].measurement.stats.windows, 0);
  EXPECT_EQ(c.histories[1].measurement.stats.windows, 0) << "no article is so long: said, not failed";
  ASSERT_EQ(c.layouts.size(), 2u);
  EXPECT_EQ(c.layouts[0].name, "one-anchor");
  EXPECT_EQ(c.layouts[0].groups.size(), 3u);
  EXPECT_EQ(c.layouts[0].confirm.size(), 3u) << "every prefix";
  EXPECT_EQ(c.trials.size(), 6u) << "three gates, two budgets";
}

// What a report measures beside must not change the set.
TEST_F(ReportTest, TheSetIsTheSameWithoutIt) {
  CalibrateOptions options = shared_->options;
  options.report.clear();
  Progress silent;
  Calibrator calibrator(*shared_->engine, *shared_->backend, options, shared_->clock, silent);
  ASSERT_OK_AND_ASSIGN(const CalibrationResult plain, calibrator.Run(shared_->splits));
  EXPECT_EQ(plain.bytes, result().bytes);
  EXPECT_TRUE(plain.comparison.policies.empty());
}

TEST_F(ReportTest, JsonHoldsEveryNumberAndItsOrigin) {
  const nlohmann::json j = nlohmann::json::parse(ReportJson(input()).dump());
  EXPECT_EQ(j["format"], "riskkv-report");
  EXPECT_EQ(j["splits"]["confirm"]["sha256"], shared_->splits.confirm->digest);
  EXPECT_EQ(j["splits"]["fit"]["articles_in_file"].size(), 8u);
  EXPECT_EQ(j["options"]["seed"], 1);
  EXPECT_EQ(j["set"]["digest"], result().set->digest());
  EXPECT_EQ(j["windows"]["select"].size(), result().select_windows.size());
  for (const char* groups : {"0", "1", "0+1"}) {
    const auto& m = j["measured"]["select"][groups];
    ASSERT_EQ(m["windows"].size(), result().select_windows.size()) << groups;
    EXPECT_EQ(m["delta_by_token"].size(), 40u);
    EXPECT_NEAR(m["windows"][0]["rebuilt"].get<double>() - m["windows"][0]["exact"].get<double>(),
                m["windows"][0]["delta"].get<double>(), 1e-12);
  }
  ASSERT_EQ(j["probe"]["layers"].size(), 8u) << "K and V of two layers of two groups";
  EXPECT_EQ(j["probe"]["false_alarm"], 0.01);
  for (const auto& l : j["probe"]["layers"]) EXPECT_GT(l["refused_above"], l["p50"]);
  EXPECT_THAT(j["windows"]["select"][0]["before"].get<std::string>(), HasSubstr("w"));
  EXPECT_EQ(j["tables"]["I"].size(), 4u) << "two prefixes on two splits";
  EXPECT_EQ(j["tables"]["III"][0]["folded_fp32"], (4 * 8 + 1) * 16 * 4);
  EXPECT_EQ(j["lambda"].size(), 2u);
  EXPECT_EQ(j["layouts"].size(), 2u);
}

TEST_F(ReportTest, TableOneCountsEndsAndGivesPerplexities) {
  for (const TopologyRow& r : TableOne(input())) {
    EXPECT_EQ(r.full_bytes, 99 * 160);
    EXPECT_EQ(r.omitted_bytes, static_cast<int64_t>(79 * r.layers.size() * 16));
    EXPECT_NEAR(r.layer_share, static_cast<double>(r.layers.size()) / 10, 1e-12);
    EXPECT_NEAR(std::log(r.perplexity / r.exact_perplexity), r.stats.mean, 1e-9);
  }
}

TEST_F(ReportTest, WritesTablesAndASelfContainedPage) {
  const std::string folder = ::testing::TempDir() + "report";
  fs::remove_all(folder);
  ASSERT_OK_AND_ASSIGN(const std::string missing, WriteReport(input(), folder));
  for (const char* name : {"report.json", "table1.csv", "table2.csv", "table3.csv", "rivals.csv", "layouts.csv", "requests.csv"})
    EXPECT_GT(fs::file_size(folder + "/" + name), 50u) << name;
  const std::string page = FileText(folder + "/index.html");
  EXPECT_THAT(page, AllOf(HasSubstr("risk-0.002"), HasSubstr("Table II"), HasSubstr("one-anchor"), HasSubstr("worst requests")));
  EXPECT_THAT(page, AllOf(HasSubstr("refused above"), HasSubstr("by profile"), HasSubstr("requests above the budget"),
                          HasSubstr("text before and after"), HasSubstr("TinyLlama")));
  EXPECT_THAT(page, HasSubstr("Select &lt;b&gt; &amp; &quot;c&quot;")) << "titles are text, not markup";
  EXPECT_THAT(page, Not(HasSubstr("Select <b>")));
  for (const char* outside : {"src=\"http", "href=\"http", "<script", "@import"}) EXPECT_THAT(page, Not(HasSubstr(outside)));
  if (missing.empty()) {
    for (const char* name : {"path", "risk", "layers", "tokens", "requests", "lambda", "rivals", "layouts"}) {
      EXPECT_THAT(FileText(fmt::format("{}/plots/{}.svg", folder, name)), HasSubstr("</svg>")) << name;
    }
    EXPECT_THAT(page, HasSubstr("data:image/svg+xml;base64,"));
  } else {
    EXPECT_THAT(missing, HasSubstr("gnuplot"));
    EXPECT_THAT(page, HasSubstr("No plots"));
  }
  // Titles with quotes stay one field.
  EXPECT_THAT(FileText(folder + "/requests.csv"), HasSubstr("\"Select <b> & \"\"c\"\" 0\""));
  fs::remove_all(folder);
}

// Half a character at a cut, line ends and control characters must break neither the page nor the JSON.
TEST(OneLine, LeavesPlainText) {
  EXPECT_EQ(OneLine("a \n\n b\tc"), "a b c");
  EXPECT_EQ(OneLine("\xa4x\xc3\xa4y\xc3"), "x\xc3\xa4y");
  EXPECT_EQ(OneLine("\x01 \x7f"), "");
  EXPECT_EQ(OneLine(""), "");
}

MeasuredPolicy Point(PolicyFamily family, CacheEnds ends, int64_t sent, double change, const char* name) {
  MeasuredPolicy m;
  m.policy.name = m.policy.label = name;
  m.policy.family = family;
  m.policy.ends = ends;
  m.policy.sent_bytes = sent;
  m.policy.full_bytes = 1000;
  m.measurement.stats.mean = m.measurement.stats.low95 = m.measurement.stats.high95 = change;
  return m;
}

TEST(Frontier, ComparesWithCodingLikeForLike) {
  const CacheEnds own{{4, 36}, true}, other{{4, 128}, false};
  const std::vector<MeasuredPolicy> all = {
      Point(PolicyFamily::kBits, own, 400, 0.002, "int4/64"), Point(PolicyFamily::kBits, other, 500, 0.002, "far"),
      Point(PolicyFamily::kCoded, own, 200, 0.0015, "fine"), Point(PolicyFamily::kCoded, own, 100, 0.01, "coarse"),
      Point(PolicyFamily::kOmission, own, 600, 0.0001, "safe")};
  EXPECT_DOUBLE_EQ(CodedGain(all[0], all), 2.0) << "the coarse one changes more";
  EXPECT_EQ(CodedGain(all[1], all), 0) << "other ends";
  EXPECT_EQ(CodedGain(all[2], all), 0) << "coded itself";
  EXPECT_EQ(CodedGain(all[4], all), 0) << "no coded one is so safe";
}

// int2 changes perplexity so much that the rest would be one line: said in words instead.
TEST(Frontier, WhatIsFarOutIsSaidNotDrawn) {
  const CacheEnds ends{{4, 128}, false};
  const Plot plot = FrontierPlot(
      {Point(PolicyFamily::kBits, ends, 200, 0.06, "int2/32"), Point(PolicyFamily::kBits, ends, 400, 0.002, "int4/64")},
      "confirm");
  EXPECT_THAT(plot.script, AllOf(HasSubstr("\"int4/64\""), Not(HasSubstr("\"int2/32\""))));
  EXPECT_THAT(plot.caption, HasSubstr("Above the picture: int2/32 (5.00x, +6.2 %)"));
  EXPECT_TRUE(FrontierPlot({}, "confirm").script.empty());
}

TEST_F(ReportTest, WithoutGnuplotThePageSaysSo) {
  const std::string folder = ::testing::TempDir() + "report-bare", path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  const auto missing = WriteReport(input(), folder);
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_OK(missing);
  EXPECT_THAT(*missing, HasSubstr("gnuplot-nox"));
  EXPECT_THAT(FileText(folder + "/index.html"), AllOf(HasSubstr("No plots"), HasSubstr("Table I")));
  fs::remove_all(folder);
}

TEST_F(ReportTest, AFailingScriptNamesItselfAndItsError) {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no gnuplot";
  const std::string folder = ::testing::TempDir() + "report-bad";
  EXPECT_THAT(RenderPlots({{"bad", "", "", "plot nonsense here\n"}}, folder),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("bad.gp")));
  fs::remove_all(folder);
}

// The codec of a set beside omission and the rivals, in the report of either method.
TEST_F(ReportTest, ACodecStandsOnTheSamePage) {
  CalibrateOptions options = shared_->options;
  options.windows_sensitivity = 0;
  options.epsilons = {0.002, 10.0};
  Progress silent;
  CodedCalibrator coded(*shared_->engine, result().set.get(), options, silent);
  ASSERT_OK_AND_ASSIGN(const CodedCalibration calibration, coded.Run(shared_->splits));
  ASSERT_OK_AND_ASSIGN(const CodedComparison comparison, CompareCoded(*shared_->engine, *shared_->backend, options,
                                                                      shared_->splits, *calibration.set, silent));
  EXPECT_EQ(comparison.split, "confirm");
  EXPECT_EQ(comparison.windows.size(), result().confirm_windows.size());
  std::set<PolicyFamily> families;
  std::map<std::string, int> ends;
  for (const MeasuredPolicy& p : comparison.policies) {
    families.insert(p.policy.family);
    ++ends[CacheEndsName(p.policy.ends)];
    EXPECT_EQ(p.measurement.windows.size(), comparison.windows.size()) << p.policy.name;
    EXPECT_GT(p.policy.sent_bytes, 0) << p.policy.name;
    // The same policy on the same windows costs the same in both reports.
    for (const MeasuredPolicy& other : result().comparison.policies) {
      if (other.policy.name == p.policy.name && other.policy.ends == p.policy.ends) {
        EXPECT_EQ(other.measurement.stats.mean, p.measurement.stats.mean) << p.policy.name;
      }
    }
  }
  EXPECT_EQ(families.size(), 4u);
  EXPECT_GT(ends["4/36 int8"], 6) << "the codec's steps, int4 and omission like for like";
  const std::string folder = ::testing::TempDir() + "report-coded";
  fs::remove_all(folder);
  ASSERT_OK(WriteCodedReport({options, shared_->splits, calibration, comparison, shared_->engine->facts()}, folder));
  const nlohmann::json j = nlohmann::json::parse(FileText(folder + "/report.json"));
  EXPECT_EQ(j["rivals"].size(), comparison.policies.size());
  EXPECT_EQ(j["profiles"][0]["name"], "coded-10");
  const std::string page = FileText(folder + "/index.html");
  EXPECT_THAT(page, AllOf(HasSubstr("coded-10"), HasSubstr("Budget 0.002</b>: no step passes"), HasSubstr("step 0.25"),
                          HasSubstr("int4 groups of 64"), HasSubstr("worst requests")));
  for (const char* outside : {"src=\"http", "href=\"http", "<script"}) EXPECT_THAT(page, Not(HasSubstr(outside)));

  // And in the report of the paper's method, by name of the set's file.
  const std::string set_file = folder + "/coded.riskkv";
  ASSERT_OK(WritePredictorSet(calibration.bytes, set_file));
  CalibrateOptions paper = shared_->options;
  paper.coded_set = set_file;
  paper.layouts = {"paper"};
  Calibrator calibrator(*shared_->engine, *shared_->backend, paper, shared_->clock, silent);
  ASSERT_OK_AND_ASSIGN(const CalibrationResult both, calibrator.Run(shared_->splits));
  EXPECT_EQ(both.comparison.policies.size(), comparison.policies.size());
  EXPECT_EQ(both.bytes, result().bytes) << "the set is the same";
  ASSERT_OK(WritePredictorSet(result().bytes, folder + "/plain.riskkv"));
  paper.coded_set = folder + "/plain.riskkv";
  Calibrator without(*shared_->engine, *shared_->backend, paper, shared_->clock, silent);
  EXPECT_THAT(without.Run(shared_->splits), ::riskkv::testing::HasReason("PREDICTOR_MISSING"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace riskkv::calibrate

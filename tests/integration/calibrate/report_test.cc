#include "services/calibrate/report.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/engine/fake/fake_engine.h"
#include "fmt/format.h"
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
  for (const PolicyResult& p : c.policies) {
    names.push_back(p.policy.name);
    EXPECT_EQ(p.measurement.windows.size(), windows) << p.policy.name;
    EXPECT_LT(p.policy.sent_bytes, p.policy.full_bytes) << p.policy.name;
    EXPECT_EQ(p.policy.decode, nullptr) << "it would point at what is gone";
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"int8", "int4 groups of 32", "int4 groups of 64", "groups 0+1 omitted",
                                              "int8 anchors, 2 of 2 groups omitted"}));
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

}  // namespace
}  // namespace riskkv::calibrate

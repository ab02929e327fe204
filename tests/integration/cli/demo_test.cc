// `riskkv demo` as a program, over the fake engine: whose next token is a hash of its whole cache, so that
// one wrong byte anywhere in a move changes what comes after.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "nlohmann/json.hpp"
#include "services/cli/demo/child_process.h"
#include "services/cli/exit_code.h"
#include "tests/testing/paths.h"
#include "tests/testing/status_matchers.h"

namespace riskkv::cli {
namespace {

using nlohmann::json;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class DemoTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "riskkv-demo-test-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  int RunDemo(std::vector<std::string> more) {
    std::vector<std::string> argv = {testing::BinaryPath("riskkv"), "demo", "--engine", "fake", "--work",
                                     folder_ + "/work"};
    argv.insert(argv.end(), more.begin(), more.end());
    auto child = ChildProcess::Start({argv, folder_ + "/out", folder_ + "/err"});
    EXPECT_OK(child.status());
    for (int i = 0; i < 1200 && !(*child)->Poll(); ++i) absl::SleepFor(absl::Milliseconds(100));
    return (*child)->Stop();
  }
  std::string out() const { return ReadAll(folder_ + "/out"); }
  std::string err() const { return ReadAll(folder_ + "/err"); }
  std::string folder_;
};

TEST_F(DemoTest, MovesAndKeepsItsPromises) {
  ASSERT_EQ(RunDemo({"--json"}), kExitOk) << err() << out();
  json j = json::parse(out());
  for (const char* key :
       {"mode", "predictor_set", "groups_restored", "omitted_fraction", "bytes_saved_fraction", "bytes_sent",
        "bytes_full", "tokens_before", "tokens_after", "lost", "duplicated", "pause_ms", "precopy_ms",
        "rebuild_ms", "replay_ms_estimate", "probe_error", "full_identical", "decision"}) {
    EXPECT_TRUE(j.contains(key)) << key;
  }
  EXPECT_EQ(j["mode"], "RISK");
  EXPECT_EQ(j["lost"], 0);
  EXPECT_EQ(j["duplicated"], 0);
  EXPECT_EQ(j["full_identical"], true);
  EXPECT_GT(j["tokens_before"], 0);
  EXPECT_GT(j["tokens_after"], 0);
  EXPECT_GT(j["omitted_fraction"], 0.0);
  EXPECT_LT(j["bytes_sent"], j["bytes_full"]);
  EXPECT_GT(j["pause_ms"], 0.0);
  // One move in each mode over the slow link; the fake's cells are noise, so CODED's output differs at the move.
  ASSERT_EQ(j["link"]["moves"].size(), 4u) << j["link"];
  const std::vector<std::string> modes = {"CODED", "RISK", "FULL", "REPLAY"};
  for (std::size_t i = 0; i < modes.size(); ++i) {
    const json& move = j["link"]["moves"][i];
    EXPECT_EQ(move["mode"], modes[i]);
    if (modes[i] != "RISK") {
      EXPECT_EQ(move["equal_until"] == -1, modes[i] != "CODED") << move;
    }
    EXPECT_GT(move["total_ms"], 0.0);
    EXPECT_GT(move["pause_ms"], 0.0);
  }
  EXPECT_LT(j["link"]["moves"][0]["bytes_sent"], j["link"]["moves"][1]["bytes_sent"]) << "CODED sends less than RISK";
  EXPECT_LT(j["link"]["moves"][1]["bytes_sent"], j["link"]["moves"][2]["bytes_sent"]) << "and RISK less than FULL";
  EXPECT_TRUE(j["link"]["coded_left_out"].is_null());
}

TEST_F(DemoTest, WithoutItsWorkersItFailsByName) {
  EXPECT_EQ(RunDemo({"--json", "--worker-binary", "/nowhere/riskkv-worker"}), kExitNotFound);
  EXPECT_THAT(out(), ::testing::HasSubstr("/nowhere/riskkv-worker"));
}

TEST_F(DemoTest, AWorkerThatDiesAtOnceIsNamedWithItsLog) {
  EXPECT_EQ(RunDemo({"--worker-binary", "/bin/false"}), kExitUnavailable);
  EXPECT_THAT(err(), ::testing::HasSubstr("worker-a ended with exit code 1"));
}

}  // namespace
}  // namespace riskkv::cli

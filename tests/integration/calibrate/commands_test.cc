#include "services/calibrate/commands.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace riskkv::calibrate {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Outcome {
  int code = -1;
  std::string out, err;
};

class CommandsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        ::testing::TempDir() + "commands-" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    setenv("OPENBLAS_CORETYPE", "", 0);  // the test must not start itself anew
  }
  void TearDown() override { fs::remove_all(folder_); }

  Outcome Run(std::vector<std::string> arguments) {
    CLI::App app{"riskkv"};
    Outcome outcome;
    AddCalibrateCommand(app, &outcome.code);
    AddEvaluateCommand(app, &outcome.code);
    AddInspectCommand(app, &outcome.code);
    std::reverse(arguments.begin(), arguments.end());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    try {
      app.parse(arguments);
    } catch (const CLI::ParseError& e) {
      outcome.code = app.exit(e, std::cout, std::cerr);
    }
    std::cout.flush();
    fflush(stdout);
    outcome.out = ::testing::internal::GetCapturedStdout();
    outcome.err = ::testing::internal::GetCapturedStderr();
    return outcome;
  }

  // A GGUF of two entries, without tensors: an architecture and one number.
  std::string WriteGguf(const std::string& arch, const std::string& key, uint32_t number) const {
    const std::string path = folder_ + "/" + arch + ".gguf";
    std::ofstream out(path, std::ios::binary);
    auto put = [&out](auto value) { out.write(reinterpret_cast<const char*>(&value), sizeof(value)); };
    auto text = [&](const std::string& s) {
      put(static_cast<uint64_t>(s.size()));
      out << s;
    };
    constexpr uint32_t kVersion = 3, kUint32 = 4, kString = 8;
    out << "GGUF";
    put(kVersion);
    put(uint64_t{0});
    put(uint64_t{2});
    text("general.architecture"), put(kString), text(arch);
    text(key), put(kUint32), put(number);
    return path;
  }

  std::string MakeSet() {
    const Outcome made = Run({"calibrate", "--engine", "fake", "--out", folder_ + "/", "--json"});
    EXPECT_EQ(made.code, 0) << made.err;
    return nlohmann::json::parse(made.out)["path"];
  }

  std::string folder_;
};

TEST_F(CommandsTest, HelpShowsAnExample) {
  for (const char* command : {"calibrate", "evaluate", "inspect"}) {
    const Outcome help = Run({command, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, AllOf(HasSubstr("Example:"), HasSubstr(std::string("riskkv ") + command)));
  }
}

TEST_F(CommandsTest, AFakeSetIsWrittenInspectedAndEvaluated) {
  const std::string set = MakeSet();
  EXPECT_TRUE(fs::exists(set));
  const Outcome table = Run({"inspect", set});
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, AllOf(HasSubstr("risk-0.005"), HasSubstr("2,3"), HasSubstr("40.0%")));
  const Outcome json = Run({"inspect", set, "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["profiles"]["risk-0.005"]["omitted_fraction"], 0.4);
  std::ofstream(folder_ + "/t.txt") << std::string(3000, 'x');
  const Outcome evaluated = Run({"evaluate", "--engine", "fake", "--predictors", set, "--text",
                                 folder_ + "/t.txt", "--windows", "2", "--json"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  const auto j = nlohmann::json::parse(evaluated.out);
  EXPECT_EQ(j["profile"], "risk-0.005");
  EXPECT_EQ(j["nll_delta_mean"], 0.0);
  EXPECT_LT(j["bytes_sent"], j["bytes_full"]);
  EXPECT_EQ(j["gate"], "too few windows");
  const Outcome lengths = Run({"evaluate", "--engine", "fake", "--predictors", set, "--text", folder_ + "/t.txt", "--history",
                               "128,300", "--horizon", "64", "--windows", "2", "--json"});
  ASSERT_EQ(lengths.code, 0) << lengths.err;
  EXPECT_EQ(nlohmann::json::parse(lengths.out)["by_history"][1]["history"], 300);
}

TEST_F(CommandsTest, ExitCodesMeanSomething) {
  const std::string set = MakeSet();
  EXPECT_EQ(Run({"inspect", folder_ + "/none.riskkv"}).code, kExitNotFound);
  std::ofstream(folder_ + "/t.txt") << "short";
  const Outcome too_short =
      Run({"evaluate", "--engine", "fake", "--predictors", set, "--text", folder_ + "/t.txt"});
  EXPECT_EQ(too_short.code, kExitUsage);
  EXPECT_THAT(too_short.err, HasSubstr("too short"));
  const Outcome profile = Run(
      {"evaluate", "--engine", "fake", "--predictors", set, "--text", folder_ + "/t.txt", "--profile", "x"});
  EXPECT_EQ(profile.code, kExitNotFound);
  EXPECT_THAT(profile.err, HasSubstr("UNKNOWN_PROFILE"));
  std::fstream file(set, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-3, std::ios::end);
  file.put('\x7f');
  file.close();
  const Outcome damaged = Run({"inspect", set});
  EXPECT_EQ(damaged.code, kExitBrokenPromise);
  EXPECT_THAT(damaged.err, AllOf(HasSubstr("digest"), HasSubstr(set)));
}

TEST_F(CommandsTest, BadInputIsNamedBeforeAModelIsLoaded) {
  std::ofstream(folder_ + "/a.txt") << " = Same = \nsome text\n";
  std::ofstream(folder_ + "/empty.txt") << "\n";
  std::ofstream(folder_ + "/bad.txt") << "\xff\xfe";
  const std::string a = folder_ + "/a.txt";
  auto calibrate = [&](const std::string& fit, const std::string& select) {
    return Run(
        {"calibrate", "--model", "none.gguf", "--fit", fit, "--select", select, "--out", folder_ + "/out/"});
  };
  EXPECT_THAT(calibrate(a, a).err, HasSubstr("\"Same\" is in two splits"));
  EXPECT_THAT(calibrate(folder_ + "/empty.txt", a).err, HasSubstr("empty.txt is empty"));
  EXPECT_THAT(calibrate(folder_ + "/bad.txt", a).err, HasSubstr("not UTF-8"));
  EXPECT_EQ(calibrate(folder_ + "/none.txt", a).code, kExitNotFound);
  EXPECT_FALSE(fs::exists(folder_ + "/out"));
  EXPECT_NE(Run({"calibrate", "--dtype", "int8", "--out", "x"}).code, 0);
  EXPECT_NE(Run({"calibrate", "--ends", "-1", "--out", "x"}).code, 0);
  EXPECT_NE(Run({"calibrate", "--trials", "0", "--out", "x"}).code, 0);
}

// What the method cannot be true of is refused by the name of what it is.
TEST_F(CommandsTest, ModelsWithOtherCachesAreRefusedByName) {
  std::ofstream(folder_ + "/a.txt") << " = One = \nsome text\n";
  std::ofstream(folder_ + "/b.txt") << " = Two = \nother text\n";
  struct Model {
    const char *arch, *key;
    const char* name;
  };
  for (const Model& m : {Model{"gemma3", "gemma3.attention.sliding_window", "sliding window attention"},
                         Model{"deepseek2", "deepseek2.attention.kv_lora_rank", "multi-head latent attention (MLA)"},
                         Model{"mamba", "mamba.ssm.state_size", "recurrent (state space) layers"},
                         Model{"rwkv6", "rwkv6.wkv.head_size", "recurrent (RWKV) layers"}}) {
    const std::string model = WriteGguf(m.arch, m.key, 512);
    for (const char* method : {"paper", "coded"}) {
      const Outcome refused = Run({"calibrate", "--method", method, "--model", model, "--fit", folder_ + "/a.txt",
                                   "--select", folder_ + "/b.txt", "--out", folder_ + "/out/"});
      EXPECT_EQ(refused.code, kExitRefused) << refused.err;
      EXPECT_THAT(refused.err, AllOf(HasSubstr(m.name), HasSubstr(model)));
    }
  }
  EXPECT_FALSE(fs::exists(folder_ + "/out"));
}

}  // namespace
}  // namespace riskkv::calibrate

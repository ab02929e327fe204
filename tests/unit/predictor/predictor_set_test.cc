#include "common/predictor/predictor_set.h"

#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/base/digest.h"
#include "common/engine/fake/fake_engine.h"
#include "common/predictor/mapped_file.h"
#include "common/predictor/safetensors.h"
#include "common/predictor/selection_set.h"
#include "common/predictor/set_format.h"
#include "fmt/format.h"
#include "kernels/fp16.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

namespace fs = std::filesystem;
using ::riskkv::testing::HasReason;
using ::riskkv::testing::StatusIs;
using ::testing::HasSubstr;

class PredictorSetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        ::testing::TempDir() + "sets-" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    FakeOptions options;
    options.rope = kernels::RopePairing::kHalves;
    ASSERT_OK_AND_ASSIGN(engine_, FakeEngine::Create(options));
    ASSERT_OK_AND_ASSIGN(bytes_, SelectionSetBytes(engine_->facts(), {4, 16}));
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string folder_;
  std::unique_ptr<FakeEngine> engine_;
  std::string bytes_;
};

TEST_F(PredictorSetTest, RoundTripThroughAFileNamedByItsDigest) {
  ASSERT_OK_AND_ASSIGN(const std::string path, WritePredictorSet(bytes_, folder_ + "/"));
  EXPECT_EQ(fs::path(path).filename().string(), Sha256Hex(bytes_) + ".riskkv");
  ASSERT_OK_AND_ASSIGN(const auto set, PredictorSet::Open(path));
  EXPECT_EQ(set->digest(), Sha256Hex(bytes_));
  EXPECT_EQ(set->bytes(), bytes_);
  EXPECT_EQ(set->file_bytes(), static_cast<int64_t>(bytes_.size()));
  EXPECT_OK(set->CheckModel(engine_->facts().fingerprint));
  ASSERT_EQ(set->groups().size(), 2u);
  ASSERT_OK_AND_ASSIGN(const Profile* all, set->FindProfile("risk-0.005"));
  EXPECT_EQ(all->omitted_layers, (std::vector<int>{2, 3, 6, 7}));
  EXPECT_EQ(all->ends, (EndsPolicy{4, 16}));
  EXPECT_EQ(&set->BestGatedProfile(), all);
  EXPECT_THAT(set->FindProfile("risk-9"), HasReason("UNKNOWN_PROFILE"));
  EXPECT_THAT(set->FindProfile("risk-9"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("exact, risk-0.002")));
  const kernels::PredictorSetView view = set->View();
  ASSERT_EQ(view.groups.size(), 2u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.groups[0].b) % 4, 0u);
  EXPECT_EQ(set->GroupBytes(0), (32 + 1) * 16 * 4);
  EXPECT_EQ(set->ProfileBytes(*all), set->weights_bytes());
}

TEST_F(PredictorSetTest, HalfWeightsTakeHalfTheBytes) {
  ASSERT_OK_AND_ASSIGN(const auto full, MakeSelectionSet(engine_->facts()));
  ASSERT_OK_AND_ASSIGN(const auto half, MakeSelectionSet(engine_->facts(), {}, kernels::WeightType::kF16));
  EXPECT_EQ(half->weights_bytes() * 2, full->weights_bytes());
  EXPECT_STREQ(half->weight_type_name(), "f16");
  const auto* wide = static_cast<const float*>(full->View().groups[1].b);
  const auto* narrow = static_cast<const uint16_t*>(half->View().groups[1].b);
  for (int i = 0; i < 32 * 16; ++i) EXPECT_EQ(kernels::HalfToFloat(narrow[i]), wide[i]);
}

TEST_F(PredictorSetTest, EveryFlippedByteIsFoundUnderAnyName) {
  ASSERT_OK_AND_ASSIGN(const std::string named, WritePredictorSet(bytes_, folder_ + "/"));
  for (std::size_t at = 0; at < bytes_.size(); at += 1 + bytes_.size() / 400) {
    std::string damaged = bytes_;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    const auto unnamed = PredictorSet::FromBytes(damaged, "fetched.riskkv");
    EXPECT_FALSE(unnamed.ok()) << "byte " << at;
    if (at % 8 != 0) continue;
    std::ofstream(named, std::ios::binary) << damaged;
    const auto opened = PredictorSet::Open(named);
    EXPECT_THAT(opened, StatusIs(absl::StatusCode::kDataLoss,
                                 AllOf(HasSubstr("digest"), HasSubstr(named), HasSubstr(Sha256Hex(bytes_)),
                                       HasSubstr(Sha256Hex(damaged)))));
    EXPECT_THAT(opened, HasReason("DIGEST"));
  }
  std::string damaged = bytes_;
  damaged.back() ^= 1;
  EXPECT_THAT(PredictorSet::FromBytes(damaged, "fetched.riskkv"), HasReason("DIGEST"));
  EXPECT_THAT(PredictorSet::FromBytes(bytes_, "fetched.riskkv", std::string(64, 'a')), HasReason("DIGEST"));
}

TEST_F(PredictorSetTest, EveryTruncationIsFound) {
  for (std::size_t size = 0; size < bytes_.size(); size += size < 200 ? 1 : 97) {
    EXPECT_THAT(PredictorSet::FromBytes(bytes_.substr(0, size), "cut.riskkv"),
                StatusIs(absl::StatusCode::kDataLoss))
        << size;
  }
  EXPECT_THAT(PredictorSet::FromBytes(bytes_.substr(0, bytes_.size() - 1), "cut.riskkv"),
              StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("cut.riskkv"), HasSubstr("truncated"))));
  EXPECT_THAT(PredictorSet::FromBytes(bytes_ + "x", "long.riskkv"), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(PredictorSetTest, AnotherModelIsRefusedByName) {
  ASSERT_OK_AND_ASSIGN(const auto set, PredictorSet::FromBytes(bytes_, "s.riskkv"));
  FakeOptions options;
  options.rope = kernels::RopePairing::kHalves;
  options.model_seed = 2;
  ASSERT_OK_AND_ASSIGN(const auto other, FakeEngine::Create(options));
  const absl::Status status = set->CheckModel(other->facts().fingerprint);
  EXPECT_THAT(status, HasReason("MODEL_MISMATCH"));
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("s.riskkv"), HasSubstr(engine_->facts().fingerprint.weights_digest),
                             HasSubstr(other->facts().fingerprint.weights_digest))));
}

TEST_F(PredictorSetTest, AnotherVersionIsRefusedByName) {
  const std::string from = R"("format_version":"1")", to = R"("format_version":"7")";
  const std::size_t at = bytes_.find(from);
  ASSERT_NE(at, std::string::npos);
  bytes_.replace(at, from.size(), to);
  EXPECT_THAT(PredictorSet::FromBytes(bytes_, "new.riskkv"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("new.riskkv"), HasSubstr("7"), HasSubstr("reads 1"))));
}

TEST_F(PredictorSetTest, OtherFilesAreRefused) {
  EXPECT_THAT(PredictorSet::Open(folder_ + "/none.riskkv"), HasReason("PREDICTOR_MISSING"));
  const std::string plain = WriteSafetensors({{"format", "pt"}}, {});
  EXPECT_THAT(PredictorSet::FromBytes(plain, "other"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("riskkv-predictor-set")));
  EXPECT_THAT(PredictorSet::FromBytes("GGUF0000000000000000", "g"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(PredictorSet::FromBytes("", "e"), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(PredictorSetTest, BadContentsAreNotWritten) {
  ASSERT_OK_AND_ASSIGN(const auto set, PredictorSet::FromBytes(bytes_, "s"));
  std::vector<GroupTensors> tensors(2, {std::vector<float>(32 * 16), std::vector<float>(16)});
  EXPECT_OK(SerializePredictorSet(set->fingerprint(), set->info(), tensors, kernels::WeightType::kF32));
  tensors[1].b[5] = 70000.0f;
  EXPECT_OK(SerializePredictorSet(set->fingerprint(), set->info(), tensors, kernels::WeightType::kF32));
  EXPECT_THAT(SerializePredictorSet(set->fingerprint(), set->info(), tensors, kernels::WeightType::kF16),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("group.1.weight")));
  tensors[1].b[5] = NAN;
  EXPECT_FALSE(
      SerializePredictorSet(set->fingerprint(), set->info(), tensors, kernels::WeightType::kF32).ok());
  tensors[1].b.pop_back();
  EXPECT_FALSE(
      SerializePredictorSet(set->fingerprint(), set->info(), tensors, kernels::WeightType::kF32).ok());
  SetInfo info = set->info();
  info.profiles["risk-0.005"].groups = {0};
  tensors[1].b.assign(32 * 16, 0.0f);
  EXPECT_THAT(SerializePredictorSet(set->fingerprint(), info, tensors, kernels::WeightType::kF32),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("risk-0.005")));
}

// A limit on file size gives the error of a full disk without one.
TEST_F(PredictorSetTest, AFullDiskLeavesNothingBehind) {
  fs::create_directories(folder_);
  auto previous_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit previous{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &previous), 0);
  rlimit small = previous;
  small.rlim_cur = 1000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto written = WritePredictorSet(bytes_, folder_ + "/set.riskkv");
  setrlimit(RLIMIT_FSIZE, &previous);
  std::signal(SIGXFSZ, previous_handler);
  EXPECT_THAT(written, StatusIs(absl::StatusCode::kResourceExhausted,
                                AllOf(HasSubstr("set.riskkv"), HasSubstr(fmt::format("{}", bytes_.size())))));
  EXPECT_THAT(written, HasReason("DISK_FULL"));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(PredictorSetTest, AFileIsReplacedWhole) {
  ASSERT_OK_AND_ASSIGN(const std::string path, WritePredictorSet(bytes_, folder_ + "/set.riskkv"));
  ASSERT_OK_AND_ASSIGN(const auto before, PredictorSet::Open(path));
  ASSERT_OK_AND_ASSIGN(const std::string other, SelectionSetBytes(engine_->facts(), {0, 0}));
  ASSERT_OK(WritePredictorSet(other, path));
  EXPECT_EQ(before->bytes(), bytes_);  // an open set keeps its file
  ASSERT_OK_AND_ASSIGN(const auto after, PredictorSet::Open(path));
  EXPECT_NE(after->digest(), before->digest());
}

TEST_F(PredictorSetTest, PythonReadsIt) {
  const char* python = std::getenv("RISKKV_PYTHON");
  const std::string interpreter = python != nullptr ? python : "python3";
  if (std::system((interpreter + " -c 'import safetensors, numpy' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "no python3 with safetensors and numpy";
  }
  ASSERT_OK_AND_ASSIGN(const std::string path, WritePredictorSet(bytes_, folder_ + "/set.riskkv"));
  const std::string program =
      "import sys, json\nfrom safetensors import safe_open\n"
      "with safe_open(sys.argv[1], framework='np') as f:\n"
      "    m = json.loads(f.metadata()['riskkv'])\n"
      "    w = f.get_tensor('group.1.weight')\n"
      "    assert w.shape == (32, 16) and w.sum() == 16, w.shape\n"
      "    assert m['profiles']['risk-0.005']['omitted_layers'] == [2, 3, 6, 7]\n"
      "    assert m['fingerprint']['architecture'] == 'fake'\n";
  std::ofstream(folder_ + "/read.py") << program;
  EXPECT_EQ(std::system(fmt::format("{} {}/read.py {}", interpreter, folder_, path).c_str()), 0);
}

}  // namespace
}  // namespace riskkv

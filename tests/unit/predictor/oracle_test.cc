// Against the numpy reference, where it is at hand (RISKKV_SHARED: the folder that holds reference/;
// RISKKV_PYTHON): each step on the same dumped arrays, to 1e-4 relative.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "common/kv/convert.h"
#include "common/predictor/features.h"
#include "common/predictor/fold.h"
#include "common/predictor/layout_groups.h"
#include "common/predictor/predictor_set.h"
#include "common/predictor/rebuild.h"
#include "common/predictor/ridge.h"
#include "fmt/format.h"
#include "kernels/fp16.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

constexpr int kTokens = 160, kHidden = 9;
constexpr double kLambda = 1e-3;
// Tokens whose rebuild is compared beyond fp16, each with predictors of its own.
constexpr int64_t kFineTokens[] = {0, 1, 63, 100, 159};
constexpr float kMagnify = 1024.0f;

// Each function returns the worst relative difference of what the test wrote into `folder`.
constexpr char kProgram[] = R"(
import sys, numpy as np
sys.path.insert(0, sys.argv[2] + "/reference")
import model, riskkv
folder, T, L, Hk, D, d, lam = sys.argv[3], *map(int, sys.argv[4:9]), float(sys.argv[9])
load = lambda name, kind, *shape: np.fromfile(f"{folder}/{name}", kind).reshape(*shape)
far = lambda ours, theirs: np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)
pre = load("pre.f32", np.float32, L, 2, T, Hk, D)
kv = [(pre[l, 0], pre[l, 1]) for l in range(L)]
class Model: pass
m = Model()
m.Hk, m.D, m.kv, m.d, m.theta, m.neox = Hk, D, Hk * D, d, 1000.0, False

def rope():
    cached = load("cached.f32", np.float32, L, 2, T, Hk, D)
    return max(far(pre[l, 0], model.Model.rope(m, cached[l, 0], np.arange(T), -1.0)) for l in range(L))

def features():
    return max(far(load(f"x{n}.f64", np.float64, T, -1), riskkv.features(kv, g)) for n, g in enumerate(riskkv.groups(L)))

def ridge():
    worst = 0.0
    for n, g in enumerate(riskkv.groups(L)):
        x = riskkv.features(kv, g)
        y = np.concatenate([np.concatenate([kv[l][0].reshape(T, -1), kv[l][1].reshape(T, -1)], 1) for l in g["target"]], 1)
        r = riskkv.Ridge(x.shape[1], y.shape[1])
        r.add(x.astype(np.float64), y.astype(np.float64))
        a, b = r.solve(lam)
        ours = load(f"group{n}.f64", np.float64, x.shape[1] + 1, y.shape[1])
        worst = max(worst, far(ours[:-1], a), far(ours[-1], b))
    return worst

def fold():
    g = riskkv.groups(L)[0]
    din = 8 * m.kv
    raw = load("raw.f64", np.float64, din + 1, 2 * d)
    m.w = {}
    for i, l in enumerate(g["target"]):
        for j, name in enumerate(("attn_k", "attn_v")):
            w = load(f"projection{i}{j}.f64", np.float64, d + 1, m.kv)
            m.w[f"blk.{l}.{name}.weight"], m.w[f"blk.{l}.{name}.bias"] = w[:-1].T, w[-1]
    B, b = riskkv.fold(m, g, raw[:-1], raw[-1])
    ours = load("folded.f64", np.float64, din + 1, 4 * m.kv)
    return max(far(ours[:-1], B), far(ours[-1], b))

def rebuild():
    fine = load("fine.f32", np.float32, L, 2, -1, Hk, D)
    tokens = np.fromfile(folder + "/tokens.i64", np.int64)
    worst = 0.0
    for n, g in enumerate(riskkv.groups(L)):
        ours = load(f"group{n}.f64", np.float64, 8 * m.kv + 1, 4 * m.kv)
        for l, (k, v) in riskkv.rebuild(m, kv, g, ours[:-1], ours[-1]).items():
            worst = max(worst, far(fine[l, 0], k[tokens]), far(fine[l, 1], v[tokens]))
    return worst

worst = globals()[sys.argv[1]]()
print(sys.argv[1], "worst relative difference", worst)
sys.exit(0 if worst < 1e-4 else 1)
)";

template <typename T>
void Dump(const std::string& path, std::initializer_list<const std::vector<T>*> parts) {
  std::ofstream out(path, std::ios::binary);
  for (const std::vector<T>* p : parts)
    out.write(reinterpret_cast<const char*>(p->data()), static_cast<std::streamsize>(p->size() * sizeof(T)));
}

class OracleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("RISKKV_SHARED");
    const char* python = std::getenv("RISKKV_PYTHON");
    python_ = python != nullptr ? python : "python3";
    if (shared == nullptr || std::system((python_ + " -c 'import numpy' 2>/dev/null").c_str()) != 0)
      GTEST_SKIP() << "RISKKV_SHARED is not set, or no python3 with numpy";
    shared_ = shared;
    folder_ = ::testing::TempDir() + "oracle-" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/check.py") << kProgram;
    layout_.n_layer = 10;
    layout_.n_head_kv = 2;
    layout_.head_dim = 6;
    layout_.rope = {kernels::RopePairing::kNeighbours, 6, 1000.0f, 1.0f, {}};
    groups_ = PeriodFourGroups(layout_.n_layer);
    block_ = KvBlock::Make(layout_, {0, kTokens}, AllLayers(layout_));
    uint32_t state = 5;
    for (uint16_t& v : block_.data)
      v = kernels::FloatToHalf(static_cast<float>((state = state * 1664525u + 1013904223u) >> 16) / 32768.0f - 0.7f);
    ASSERT_OK_AND_ASSIGN(rows_, UndoRope(layout_, block_));
    Dump<float>(folder_ + "/pre.f32", {&rows_.data});
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  // 0 when the reference agrees.
  int Check(const char* step) const {
    return std::system(fmt::format("{} {}/check.py {} {} {} {} {} {} {} {} {}", python_, folder_, step, shared_, folder_, kTokens,
                                   layout_.n_layer, layout_.n_head_kv, layout_.head_dim, kHidden, kLambda)
                           .c_str());
  }

  // Ridges onto K and V of every group's targets, dumped.
  absl::StatusOr<std::vector<RidgeSolution>> Fit() const {
    std::vector<RidgeSolution> fitted;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      RidgeAccumulator sums(InputWidth(groups_[g], layout_.kv()), OutputWidth(groups_[g], layout_.kv()));
      sums.Add(GatherColumns(rows_, groups_[g].anchors, 0, kTokens).data(),
               GatherColumns(rows_, groups_[g].targets, 0, kTokens).data(), kTokens);
      ASSIGN_OR_RETURN(const RidgeSolver solver, RidgeSolver::Create(sums));
      ASSIGN_OR_RETURN(fitted.emplace_back(), solver.Solve(kLambda));
      Dump<double>(fmt::format("{}/group{}.f64", folder_, g), {&fitted.back().a, &fitted.back().b});
    }
    return fitted;
  }

  // The cache rebuilt by the CPU backend from these predictors, keys before RoPE again.
  absl::StatusOr<PreRopeBlock> Rebuild(const std::vector<GroupTensors>& tensors, const KvBlock& block) const {
    Fingerprint model;
    model.architecture = "oracle";
    model.layout = layout_;
    SetInfo info;
    Profile profile;
    for (const GroupSpec& g : groups_) {
      GroupInfo group;
      group.spec = g;
      for (int t : g.targets) group.layers.push_back({t});
      profile.groups.push_back(static_cast<int>(info.groups.size()));
      info.groups.push_back(group);
    }
    info.profiles["exact"] = ExactProfile({});
    ASSIGN_OR_RETURN(std::string bytes, SerializePredictorSet(model, info, tensors, kernels::WeightType::kF32));
    ASSIGN_OR_RETURN(const auto set, PredictorSet::FromBytes(std::move(bytes), "oracle"));
    std::unique_ptr<kernels::Backend> backend;
    RETURN_IF_ERROR(ToAbsl(kernels::CreateBackend(kernels::BackendChoice::kCpu, 1, &backend)));
    ASSIGN_OR_RETURN(const auto uploaded, UploadedSet::Create(*backend, *set));
    profile.omitted_layers = TargetsOf(set->groups(), profile.groups);
    ASSIGN_OR_RETURN(const KvBlock shipped, Slice(block, block.range, ShippedLayers(*set, profile)));
    ASSIGN_OR_RETURN(const KvBlock rebuilt, RebuildBlock(*backend, uploaded->handle(), *set, profile, shipped));
    return UndoRope(layout_, rebuilt);
  }

  // One token's rebuild beyond fp16's rounding. A rebuild comes out in fp16; a second one, with the first taken off the bias
  // and everything magnified, is what the rounding hid: first + second / kMagnify.
  absl::StatusOr<PreRopeBlock> FineRebuild(const std::vector<RidgeSolution>& fitted, int64_t token) const {
    std::vector<GroupTensors> tensors;
    for (const RidgeSolution& s : fitted) tensors.push_back({{s.a.begin(), s.a.end()}, {s.b.begin(), s.b.end()}});
    ASSIGN_OR_RETURN(const KvBlock cells, Slice(block_, {token, token + 1}, block_.layers));
    ASSIGN_OR_RETURN(PreRopeBlock first, Rebuild(tensors, cells));
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      std::size_t at = 0;
      for (int target : groups_[g].targets) {
        for (int part = 0; part < 2; ++part) {
          for (int i = 0; i < layout_.kv(); ++i, ++at)
            tensors[g].bias[at] = kMagnify * static_cast<float>(fitted[g].b[at] - first.rows(target, part)[i]);
        }
      }
      for (float& w : tensors[g].b) w *= kMagnify;
    }
    ASSIGN_OR_RETURN(const PreRopeBlock second, Rebuild(tensors, cells));
    for (const GroupSpec& g : groups_) {
      for (int target : g.targets) {
        for (int part = 0; part < 2; ++part) {
          for (int i = 0; i < layout_.kv(); ++i) first.rows(target, part)[i] += second.rows(target, part)[i] / kMagnify;
        }
      }
    }
    return first;
  }

  std::string python_, shared_, folder_;
  KvLayout layout_;
  std::vector<GroupSpec> groups_;
  KvBlock block_;
  PreRopeBlock rows_;
};

TEST_F(OracleTest, KeysBeforeRope) {
  std::vector<float> cached(block_.data.size());
  kernels::HalfToFloat(block_.data.data(), cached.data(), cached.size());
  Dump<float>(folder_ + "/cached.f32", {&cached});
  EXPECT_EQ(Check("rope"), 0);
}

TEST_F(OracleTest, Features) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<double> x = GatherColumns(rows_, groups_[g].anchors, 0, kTokens);
    Dump<double>(fmt::format("{}/x{}.f64", folder_, g), {&x});
  }
  EXPECT_EQ(Check("features"), 0);
}

TEST_F(OracleTest, Ridge) {
  ASSERT_OK(Fit().status());
  EXPECT_EQ(Check("ridge"), 0);
}

TEST_F(OracleTest, Fold) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  auto matrix = [&](int n) {
    std::vector<double> m(static_cast<std::size_t>(n));
    for (double& v : m) v = normal(random);
    return m;
  };
  const int kv = layout_.kv(), d_in = InputWidth(groups_[0], kv);
  const RidgeSolution raw{d_in, 2 * kHidden, matrix(d_in * 2 * kHidden), matrix(2 * kHidden)};
  std::vector<LayerProjections> projections;
  for (int i = 0; i < 2; ++i) {
    projections.push_back({matrix(kHidden * kv), matrix(kHidden * kv), matrix(kv), matrix(kv)});
    Dump<double>(fmt::format("{}/projection{}0.f64", folder_, i), {&projections.back().w_k, &projections.back().c_k});
    Dump<double>(fmt::format("{}/projection{}1.f64", folder_, i), {&projections.back().w_v, &projections.back().c_v});
  }
  ASSERT_OK_AND_ASSIGN(const RidgeSolution folded, Fold(raw, projections, kHidden, kv));
  Dump<double>(folder_ + "/raw.f64", {&raw.a, &raw.b});
  Dump<double>(folder_ + "/folded.f64", {&folded.a, &folded.b});
  EXPECT_EQ(Check("fold"), 0);
}

TEST_F(OracleTest, RebuildBeforeItIsRounded) {
  ASSERT_OK_AND_ASSIGN(const std::vector<RidgeSolution> fitted, Fit());
  std::vector<PreRopeBlock> fine;
  for (int64_t token : kFineTokens) {
    ASSERT_OK_AND_ASSIGN(fine.emplace_back(), FineRebuild(fitted, token));
  }
  std::vector<float> rows;  // [layer][K|V][token][kv]
  for (int l = 0; l < layout_.n_layer; ++l) {
    for (int part = 0; part < 2; ++part) {
      for (const PreRopeBlock& f : fine) rows.insert(rows.end(), f.rows(l, part), f.rows(l, part) + layout_.kv());
    }
  }
  const std::vector<int64_t> tokens(std::begin(kFineTokens), std::end(kFineTokens));
  Dump<float>(folder_ + "/fine.f32", {&rows});
  Dump<int64_t>(folder_ + "/tokens.i64", {&tokens});
  EXPECT_EQ(Check("rebuild"), 0);
}

}  // namespace
}  // namespace riskkv

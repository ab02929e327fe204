// Against the numpy reference, where it is at hand (RISKKV_SHARED: the folder that holds reference/;
// RISKKV_PYTHON).
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/predictor/features.h"
#include "common/kv/convert.h"
#include "common/predictor/layout_groups.h"
#include "common/predictor/predictor_set.h"
#include "common/predictor/rebuild.h"
#include "common/predictor/ridge.h"
#include "fmt/format.h"
#include "kernels/fp16.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

constexpr char kProgram[] = R"(
import sys, numpy as np
sys.path.insert(0, sys.argv[1] + "/reference")
import riskkv
folder, T, L, Hk, D, lam = sys.argv[2], *map(int, sys.argv[3:7]), float(sys.argv[7])
pre = np.fromfile(folder + "/pre.f32", np.float32).reshape(L, 2, T, Hk, D)
kv = [(pre[l, 0], pre[l, 1]) for l in range(L)]
worst = 0.0
for n, g in enumerate(riskkv.groups(L)):
    x = riskkv.features(kv, g)
    y = np.concatenate([np.concatenate([kv[l][0].reshape(T, -1), kv[l][1].reshape(T, -1)], 1) for l in g["target"]], 1)
    r = riskkv.Ridge(x.shape[1], y.shape[1])
    r.add(x.astype(np.float64), y.astype(np.float64))
    a, b = r.solve(lam)
    ours = np.fromfile(f"{folder}/group{n}.f64", np.float64).reshape(x.shape[1] + 1, y.shape[1])
    worst = max(worst, np.linalg.norm(ours[:-1] - a) / np.linalg.norm(a), np.linalg.norm(ours[-1] - b) / np.linalg.norm(b))
    # The rebuild, as it comes out of the cache: its rows are fp16, so rounding alone is 2e-4.
    class Model: Hk, D, kv = Hk, D, Hk * D
    rebuilt = np.fromfile(folder + "/rebuilt.f32", np.float32).reshape(L, 2, T, Hk, D)
    for l, (k, v) in riskkv.rebuild(Model, kv, g, ours[:-1], ours[-1]).items():
        for p, z in ((0, k), (1, v)):
            rounding = np.linalg.norm(rebuilt[l, p] - z) / np.linalg.norm(z)
            if rounding > 5e-4: sys.exit(f"layer {l} part {p}: rebuild differs by {rounding}")
print("worst relative difference", worst)
sys.exit(0 if worst < 1e-4 else 1)
)";

// The cache rebuilt by the CPU backend from these predictors, keys before RoPE again.
absl::StatusOr<PreRopeBlock> RebuildAll(const KvLayout& layout, const std::vector<GroupSpec>& groups,
                                        const std::vector<GroupTensors>& tensors, const KvBlock& block) {
  Fingerprint model;
  model.architecture = "oracle";
  model.layout = layout;
  SetInfo info;
  std::vector<int> all;
  for (const GroupSpec& g : groups) {
    GroupInfo group;
    group.spec = g;
    for (int t : g.targets) group.layers.push_back({t});
    all.push_back(static_cast<int>(info.groups.size()));
    info.groups.push_back(group);
  }
  info.profiles["exact"] = ExactProfile({});
  ASSIGN_OR_RETURN(std::string bytes, SerializePredictorSet(model, info, tensors, kernels::WeightType::kF32));
  ASSIGN_OR_RETURN(const auto set, PredictorSet::FromBytes(std::move(bytes), "oracle"));
  std::unique_ptr<kernels::Backend> backend;
  RETURN_IF_ERROR(ToAbsl(kernels::CreateBackend(kernels::BackendChoice::kCpu, 1, &backend)));
  ASSIGN_OR_RETURN(const auto uploaded, UploadedSet::Create(*backend, *set));
  Profile profile;
  profile.groups = all;
  profile.omitted_layers = TargetsOf(set->groups(), all);
  ASSIGN_OR_RETURN(const KvBlock shipped, Slice(block, block.range, ShippedLayers(*set, profile)));
  ASSIGN_OR_RETURN(const KvBlock rebuilt, RebuildBlock(*backend, uploaded->handle(), *set, profile, shipped));
  return UndoRope(layout, rebuilt);
}

TEST(Oracle, RidgeAndRebuildOnDumpedKvAgreeToOneInTenThousand) {
  const char* shared = std::getenv("RISKKV_SHARED");
  const char* python = std::getenv("RISKKV_PYTHON");
  const std::string interpreter = python != nullptr ? python : "python3";
  if (shared == nullptr || std::system((interpreter + " -c 'import numpy' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "RISKKV_SHARED is not set, or no python3 with numpy";
  }
  KvLayout layout;
  layout.n_layer = 10;
  layout.n_head_kv = 2;
  layout.head_dim = 6;
  layout.rope = {kernels::RopePairing::kNeighbours, 6, 1000.0f, 1.0f, {}};
  constexpr int kTokens = 160;
  constexpr double kLambda = 1e-3;
  KvBlock block = KvBlock::Make(layout, {0, kTokens}, AllLayers(layout));
  uint32_t state = 5;
  for (uint16_t& v : block.data)
    v = kernels::FloatToHalf(static_cast<float>((state = state * 1664525u + 1013904223u) >> 16) / 32768.0f -
                             0.7f);
  ASSERT_OK_AND_ASSIGN(const PreRopeBlock rows, UndoRope(layout, block));
  const std::string folder = ::testing::TempDir() + "oracle";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/pre.f32", std::ios::binary)
      .write(reinterpret_cast<const char*>(rows.data.data()),
             static_cast<std::streamsize>(rows.data.size() * 4));
  const std::vector<GroupSpec> groups = PeriodFourGroups(layout.n_layer);
  std::vector<GroupTensors> tensors;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    RidgeAccumulator sums(InputWidth(groups[g], layout.kv()), OutputWidth(groups[g], layout.kv()));
    sums.Add(GatherColumns(rows, groups[g].anchors, 0, kTokens).data(),
             GatherColumns(rows, groups[g].targets, 0, kTokens).data(), kTokens);
    ASSERT_OK_AND_ASSIGN(const RidgeSolver solver, RidgeSolver::Create(sums));
    ASSERT_OK_AND_ASSIGN(const RidgeSolution s, solver.Solve(kLambda));
    std::ofstream out(fmt::format("{}/group{}.f64", folder, g), std::ios::binary);
    out.write(reinterpret_cast<const char*>(s.a.data()), static_cast<std::streamsize>(s.a.size() * 8));
    out.write(reinterpret_cast<const char*>(s.b.data()), static_cast<std::streamsize>(s.b.size() * 8));
    tensors.push_back({{s.a.begin(), s.a.end()}, {s.b.begin(), s.b.end()}});
  }
  ASSERT_OK_AND_ASSIGN(const PreRopeBlock rebuilt, RebuildAll(layout, groups, tensors, block));
  std::ofstream(folder + "/rebuilt.f32", std::ios::binary)
      .write(reinterpret_cast<const char*>(rebuilt.data.data()), static_cast<std::streamsize>(rebuilt.data.size() * 4));
  std::ofstream(folder + "/check.py") << kProgram;
  EXPECT_EQ(
      std::system(fmt::format("{} {}/check.py {} {} {} {} {} {} {}", interpreter, folder, shared, folder,
                              kTokens, layout.n_layer, layout.n_head_kv, layout.head_dim, kLambda)
                      .c_str()),
      0);
}

}  // namespace
}  // namespace riskkv

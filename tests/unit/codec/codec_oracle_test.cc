// Against the numpy reference, where it is at hand (RISKKV_SHARED: the folder that holds reference/;
// RISKKV_PYTHON).
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fmt/format.h"
#include "kernels/fp16.h"
#include "tests/unit/codec/synthetic_cache.h"

namespace riskkv {
namespace {

using ::riskkv::testing::SmallLayout;
using ::riskkv::testing::SyntheticCache;

constexpr int kWindows = 8;

constexpr char kOracleProgram[] = R"(
import sys, numpy as np
sys.path.insert(0, sys.argv[1] + "/reference")
import coded
folder, T, L, kv, ridge = sys.argv[2], *map(int, sys.argv[3:6]), float(sys.argv[6])
load = lambda name: np.fromfile(f"{folder}/{name}.f32", np.float32).reshape(L, 2, T, kv)
c = coded.Coder(L, kv)
for w in range(8):
    c.add(load(f"fit{w}"), skip=0)
c.solve(ridge)
x = load("test")
for line in open(folder + "/ours.txt"):
    step, bits, error = map(float, line.split())
    z, b, e = c.code(x, step)
    print(step, "bits", b, "ours", bits, "error", e, "ours", error)
    assert abs(bits / b - 1) < 2e-3 and abs(error / e - 1) < 5e-3
    ours = load(f"decoded{step:g}")
    # The same levels nearly everywhere: single ones at a border may fall to either side.
    far = np.abs(ours - z).max(axis=(0, 1, 3)) > 1e-2 * np.abs(z).max()
    assert far.mean() < 0.1, far.mean()
)";

void WriteRows(const std::string& path, const std::vector<float>& rows) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(rows.data()), static_cast<std::streamsize>(rows.size() * sizeof(float)));
}

TEST(CodecOracle, BitsErrorsAndCellsAreThoseOfTheReference) {
  const char* shared = std::getenv("RISKKV_SHARED");
  const char* python = std::getenv("RISKKV_PYTHON");
  const std::string interpreter = python != nullptr ? python : "python3";
  if (shared == nullptr || std::system((interpreter + " -c 'import numpy' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "RISKKV_SHARED is not set, or no python3 with numpy";
  const KvLayout layout = SmallLayout();
  constexpr double kRidge = 1e-3;
  const std::string folder = ::testing::TempDir() + "codec_oracle";
  std::filesystem::create_directories(folder);
  CodecFitter fitter(layout, PairPlan(layout.n_layer), 2);
  for (int w = 0; w < kWindows; ++w) {
    ASSERT_OK_AND_ASSIGN(const PreRopeBlock rows, UndoRope(layout, SyntheticCache(layout, {0, 128}, 100u + w)));
    WriteRows(fmt::format("{}/fit{}.f32", folder, w), rows.data);
    fitter.Add(rows, 0, 50);  // in pieces: sums must not depend on them
    fitter.Add(rows, 50, 128);
  }
  ASSERT_OK_AND_ASSIGN(CodecWeights weights, fitter.Solve(kRidge));
  ASSERT_OK_AND_ASSIGN(const auto codec, BlockCodec::Create(layout, std::move(weights)));
  const KvBlock exact = SyntheticCache(layout, {0, 128}, 999);
  ASSERT_OK_AND_ASSIGN(const PreRopeBlock rows, UndoRope(layout, exact));
  WriteRows(folder + "/test.f32", rows.data);
  std::ofstream ours(folder + "/ours.txt");
  CodecScratch scratch;
  for (const float step : {0.125f, 0.25f, 0.5f}) {
    ASSERT_OK_AND_ASSIGN(const CodedPolicy policy, codec->MakePolicy(step));
    ASSERT_OK_AND_ASSIGN(const QuantisedBlock levels, codec->Quantise(policy, exact, scratch));
    ASSERT_OK_AND_ASSIGN(const KvBlock cells, codec->Reconstruct(policy, levels, scratch));
    ASSERT_OK_AND_ASSIGN(const PreRopeBlock decoded, UndoRope(layout, cells));
    WriteRows(fmt::format("{}/decoded{:g}.f32", folder, step), decoded.data);
    double error = 0;
    for (int l = 0; l < layout.n_layer; ++l) {
      for (int part = 0; part < 2; ++part) {
        for (int64_t i = 0; i < 128 * rows.kv; ++i) {
          const double d = (rows.rows(l, part)[i] - decoded.rows(l, part)[i]) /
                           codec->weights().scale[2 * static_cast<std::size_t>(l) + part];
          error += d * d;
        }
      }
    }
    const double elements = static_cast<double>(exact.data.size());
    ours << fmt::format("{} {} {}\n", step, IdealBits(*codec, policy, levels) / elements, error / elements);
  }
  ours.close();
  std::ofstream(folder + "/check_codec.py") << kOracleProgram;
  EXPECT_EQ(std::system(fmt::format("{} {}/check_codec.py {} {} 128 {} {} {}", interpreter, folder, shared, folder,
                                    layout.n_layer, layout.kv(), kRidge)
                            .c_str()),
            0);
}

}  // namespace
}  // namespace riskkv

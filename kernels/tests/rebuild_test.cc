// Rebuilt rows against the oracle in double precision.
#include <algorithm>
#include <random>
#include <utility>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/gemm.h"
#include "kernels/tests/backends.h"
#include "kernels/tests/problem.h"

namespace riskkv::kernels::test {
namespace {

struct ModelShape {
  const char* name;
  int n_head_kv, head_dim;
  RopeParams rope;
  WeightType type;
};

RopeParams WithFactors(RopeParams rope) {
  for (int i = 0; i < rope.rotary_dim / 2; ++i) rope.freq_factors.push_back(1.0f + 0.5f * i);
  return rope;
}

std::vector<ModelShape> Shapes() {
  return {{"SmolLM2-135M", 3, 64, Rope(RopePairing::kNeighbours, 64, 100000.0f), WeightType::kF16},
          {"Qwen2.5-0.5B", 2, 64, Rope(RopePairing::kHalves, 64, 1000000.0f), WeightType::kF32},
          {"Llama-3.1 factors", 1, 128, WithFactors(Rope(RopePairing::kNeighbours, 128, 500000.0f)), WeightType::kF16},
          {"partial rotary", 2, 40, Rope(RopePairing::kHalves, 16), WeightType::kF32},
          {"no RoPE", 2, 24, Rope(RopePairing::kNone, 0), WeightType::kF16},
          {"odd", 3, 6, Rope(RopePairing::kNeighbours, 2), WeightType::kF32}};
}

// One rebuild of one group, compared.
double Compare(Backend& backend, const TestSet& set, SetHandle handle, int group, std::vector<int32_t> positions) {
  TestRows rows(set, group, std::move(positions), 100 + group);
  CHECK_OK(backend.Rebuild({rows.Job(handle)}));
  return MaxError(set, rows);
}

RISKKV_BACKEND_TEST(rebuild_matches_the_oracle_for_every_shape) {
  for (const ModelShape& shape : Shapes()) {
    TestSet set(shape.n_head_kv, shape.head_dim, shape.rope, shape.type, 21);
    set.AddPaperGroups(2);
    set.AddGroup({1}, {2, 3, 4});        // one anchor, three targets
    set.AddGroup({9, 1, 4}, {6});        // anchors in an order of their own
    SetHandle handle = 0;
    CHECK_OK(backend.Upload(set.view, &handle));
    double worst = 0;
    for (int group = 0; group < 4; ++group) {
      worst = std::max(worst, Compare(backend, set, handle, group, Positions(group * 50, 60)));
    }
    Note(Text(shape.name, ": ", worst, ", tolerance ", Tolerance(backend)));
    CHECK(worst <= Tolerance(backend));
    CHECK_OK(backend.Release(handle));
  }
}

RISKKV_BACKEND_TEST(rebuild_matches_the_oracle_for_every_length) {
  TestSet set(1, 32, Rope(RopePairing::kHalves, 32), WeightType::kF32, 22);
  set.AddPaperGroups(1);
  SetHandle handle = 0;
  CHECK_OK(backend.Upload(set.view, &handle));
  double worst = 0;
  for (const int count : {1, 7, 127, 128, 129, 1000}) {
    for (const int first : {0, 1, 100, 127, 128, 100000}) {
      worst = std::max(worst, Compare(backend, set, handle, 0, Positions(first, count)));
    }
  }
  Note(Text("largest error ", worst, ", tolerance ", Tolerance(backend)));
  CHECK(worst <= Tolerance(backend));
}

RISKKV_BACKEND_TEST(rebuild_matches_the_oracle_for_random_shapes) {
  const uint32_t seed = 20241130;
  std::mt19937 random(seed);
  const auto pick = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  double worst = 0;
  for (int round = 0; round < 25; ++round) {
    const int head_dim = 2 * pick(1, 40);
    const RopePairing pairings[] = {RopePairing::kNone, RopePairing::kNeighbours, RopePairing::kHalves};
    RopeParams rope = Rope(pairings[pick(0, 2)], 2 * pick(1, head_dim / 2), pick(1, 1000) * 1000.0f);
    if (pick(0, 1) == 1) rope = WithFactors(rope);
    TestSet set(pick(1, 4), head_dim, rope, pick(0, 1) == 1 ? WeightType::kF16 : WeightType::kF32, random());
    std::vector<int> anchors, targets;
    for (int i = pick(1, 5); i > 0; --i) anchors.push_back(i);
    for (int i = pick(1, 3); i > 0; --i) targets.push_back(10 + i);
    set.AddGroup(anchors, targets);
    SetHandle handle = 0;
    CHECK_OK(backend.Upload(set.view, &handle));
    std::vector<int32_t> positions;  // ascending, with holes
    for (int32_t p = pick(0, 5000); static_cast<int>(positions.size()) < 150; p += pick(1, 3)) positions.push_back(p);
    worst = std::max(worst, Compare(backend, set, handle, 0, positions));
  }
  Note(Text("seed ", seed, ": largest error ", worst, ", tolerance ", Tolerance(backend)));
  CHECK(worst <= Tolerance(backend));
}

RISKKV_BACKEND_TEST(rebuild_runs_jobs_of_several_sets_in_one_batch) {
  TestSet a(2, 64, Rope(RopePairing::kHalves, 64), WeightType::kF32, 23);
  a.AddPaperGroups(3);
  TestSet b(1, 48, Rope(RopePairing::kNeighbours, 24), WeightType::kF16, 24);
  b.AddPaperGroups(1);
  SetHandle ha = 0, hb = 0;
  CHECK_OK(backend.Upload(a.view, &ha));
  CHECK_OK(backend.Upload(b.view, &hb));
  CHECK(ha != 0 && hb != 0 && ha != hb);
  std::vector<std::pair<const TestSet*, TestRows>> rows;
  for (int g = 0; g < 3; ++g) rows.emplace_back(&a, TestRows(a, g, Positions(40, 200), g));
  rows.emplace_back(&b, TestRows(b, 0, Positions(0, 90), 5));
  rows.emplace_back(&a, TestRows(a, 1, {}, 6));  // no tokens: nothing to do
  std::vector<RebuildJob> jobs;
  for (auto& [set, row] : rows) jobs.push_back(row.Job(set == &a ? ha : hb));
  CHECK_OK(backend.Rebuild(jobs));
  CHECK_OK(backend.Rebuild({}));
  for (auto& [set, row] : rows) CHECK(MaxError(*set, row) <= Tolerance(backend));
}

// The product alone, every kind there is, at sizes that are no multiple of any block; rows without a token are skipped
// without a trace in the others.
RISKKV_TEST(rebuild_every_product_kind_matches_double) {
  for (const auto& [n, k] : {std::pair(203, 517), {1, 1}, {32, 256}, {48, 1024}, {100, 300}}) {
    std::mt19937 random(25);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<std::size_t>(kTileTokens) * XStride(k)), b(static_cast<std::size_t>(k) * n);
    for (float& value : x) value = normal(random);
    for (float& value : b) value = normal(random);
    for (const GemmKind kind : AvailableGemms()) {
      const PackedB packed = PackB(kind, b.data(), k, n);
      TileRows all, some;
      all.set();
      for (const int row : {3, 40, 41, 127}) some.set(row);
      AlignedBuffer z(kTileTokens * n), part(kTileTokens * n);
      GemmTile(packed, x.data(), all, z.data());
      GemmTile(packed, x.data(), some, part.data());
      double worst = 0;
      for (int row = 0; row < kTileTokens; ++row) {
        for (int j = 0; j < n; ++j) {
          double want = 0;
          for (int p = 0; p < k; ++p) want += double{x[row * XStride(k) + p]} * b[p * n + j];
          worst = std::max(worst, std::abs(z.data()[row * n + j] - want));
          if (some[row]) CHECK_EQ(part.data()[row * n + j], z.data()[row * n + j]);
        }
      }
      const double tolerance = 2e-6 * k;
      if (n == 203) Note(Text(GemmName(kind), ": ", worst, ", tolerance ", tolerance));
      CHECK(worst <= tolerance);
    }
  }
}

// The whole backend with every kind: the oracle, and the same bytes for single tokens.
RISKKV_TEST(rebuild_every_product_kind_in_the_backend) {
  TestSet set(3, 24, Rope(RopePairing::kHalves, 24), WeightType::kF16, 26);
  set.AddPaperGroups(1);
  for (const GemmKind kind : AvailableGemms()) {
    std::unique_ptr<Backend> backend;
    CHECK_OK(CreateCpuBackend(2, kind, "test", &backend));
    SetHandle handle = 0;
    CHECK_OK(backend->Upload(set.view, &handle));
    TestRows rows(set, 0, Positions(90, 200), 27), single = rows;
    CHECK_OK(backend->Rebuild({rows.Job(handle)}));
    CHECK(MaxError(set, rows) <= Tolerance(*backend));
    for (int t = 0; t < rows.n_tokens(); ++t) CHECK_OK(backend->Rebuild({single.Job(handle, t, t + 1)}));
    CHECK(rows.target_k == single.target_k && rows.target_v == single.target_v);
  }
}

}  // namespace
}  // namespace riskkv::kernels::test

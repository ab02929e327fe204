// kTileTokens: a token's bytes do not depend on the job, block, batch or threads it came with.
#include <algorithm>
#include <random>

#include "kernels/tests/backends.h"
#include "kernels/tests/problem.h"

namespace riskkv::kernels::test {
namespace {

bool SameTargets(const TestRows& a, const TestRows& b) { return a.target_k == b.target_k && a.target_v == b.target_v; }

struct Fixture {
  // SmolLM2's shape; a small one for the fake device, whose products are plain loops.
  explicit Fixture(const Backend& backend) : Fixture(backend.info().device == "fake GPU" ? 8 : 64) {}
  explicit Fixture(int head_dim)
      : set(3, head_dim, Rope(RopePairing::kNeighbours, head_dim, 100000.0f), WeightType::kF16, 31) {
    set.AddPaperGroups(2);
  }
  TestSet set;
};

RISKKV_BACKEND_TEST(determinism_any_split_gives_the_same_bytes) {
  Fixture f(backend);
  SetHandle handle = 0;
  CHECK_OK(backend.Upload(f.set.view, &handle));
  TestRows whole(f.set, 1, Positions(37, 300), 32), parts = whole;
  CHECK_OK(backend.Rebuild({whole.Job(handle)}));
  std::mt19937 random(33);
  for (int round = 0; round < 6; ++round) {
    parts.Scrub();
    // Round 0: single tokens. Then random pieces, in one batch in odd rounds, back to front in even ones.
    std::vector<RebuildJob> jobs;
    for (int begin = 0; begin < parts.n_tokens();) {
      const int size = round == 0 ? 1 : 1 + static_cast<int>(random() % 90);
      const int end = std::min(begin + size, parts.n_tokens());
      jobs.push_back(parts.Job(handle, begin, end));
      begin = end;
    }
    if (round % 2 == 1) {
      CHECK_OK(backend.Rebuild(jobs));
    } else {
      std::reverse(jobs.begin(), jobs.end());
      for (const RebuildJob& job : jobs) CHECK_OK(backend.Rebuild({job}));
    }
    CHECK(SameTargets(whole, parts));
  }
}

// The rows around a token in its tile: others' contents, and whether they are there at all.
RISKKV_BACKEND_TEST(determinism_neighbours_do_not_matter) {
  Fixture f(backend);
  SetHandle handle = 0;
  CHECK_OK(backend.Upload(f.set.view, &handle));
  TestRows full(f.set, 0, Positions(256, 128), 34), holes(f.set, 0, {260, 300, 301, 383}, 35);
  for (std::size_t a = 0; a < full.anchor_k.size(); ++a) {
    for (int t = 0; t < holes.n_tokens(); ++t) {
      const std::size_t from = static_cast<std::size_t>(holes.positions[t] - 256) * full.kv;
      std::copy_n(&full.anchor_k[a][from], full.kv, &holes.anchor_k[a][static_cast<std::size_t>(t) * full.kv]);
      std::copy_n(&full.anchor_v[a][from], full.kv, &holes.anchor_v[a][static_cast<std::size_t>(t) * full.kv]);
    }
  }
  CHECK_OK(backend.Rebuild({full.Job(handle), holes.Job(handle)}));
  for (std::size_t layer = 0; layer < full.target_k.size(); ++layer) {
    for (int t = 0; t < holes.n_tokens(); ++t) {
      const std::size_t from = static_cast<std::size_t>(holes.positions[t] - 256) * full.kv;
      const std::size_t at = static_cast<std::size_t>(t) * full.kv;
      CHECK(std::equal(&full.target_k[layer][from], &full.target_k[layer][from] + full.kv, &holes.target_k[layer][at]));
      CHECK(std::equal(&full.target_v[layer][from], &full.target_v[layer][from] + full.kv, &holes.target_v[layer][at]));
    }
  }
}

RISKKV_BACKEND_TEST(determinism_another_upload_of_the_set_gives_the_same_bytes) {
  Fixture f(backend);
  SetHandle first = 0, second = 0;
  CHECK_OK(backend.Upload(f.set.view, &first));
  CHECK_OK(backend.Upload(f.set.view, &second));
  TestRows a(f.set, 0, Positions(5, 140), 36), b = a;
  CHECK_OK(backend.Rebuild({a.Job(first)}));
  CHECK_OK(backend.Release(first));
  CHECK_OK(backend.Rebuild({b.Job(second)}));
  CHECK(SameTargets(a, b));
}

// More than the contract asks for: the CPU backend's threads take whole tiles.
RISKKV_TEST(determinism_cpu_threads_do_not_matter) {
  Fixture f(64);
  TestRows one(f.set, 0, Positions(11, 900), 37);
  for (const int threads : {1, 2, 5}) {
    const auto backend = MakeCpu(threads);
    SetHandle handle = 0;
    CHECK_OK(backend->Upload(f.set.view, &handle));
    TestRows rows = one;
    rows.Scrub();
    CHECK_OK(backend->Rebuild({rows.Job(handle)}));
    if (threads == 1) one = rows;
    CHECK(SameTargets(one, rows));
  }
}

}  // namespace
}  // namespace riskkv::kernels::test

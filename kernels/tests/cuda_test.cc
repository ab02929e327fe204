// What is CUDA's alone. The suites of RISKKV_BACKEND_TEST run on a device where there is one, and everywhere on the
// fake device; here are the comparison of both backends, the fault paths and the cutting into chunks.
#include <algorithm>

#include "kernels/cuda/chunk.h"
#include "kernels/rope.h"
#include "kernels/tests/backends.h"
#include "kernels/tests/problem.h"

namespace riskkv::kernels::test {
namespace {

// Both backends on the same rows: what differs is fp16 inputs against fp32, and one step of the last rounding.
void CompareWithCpu(Backend& cuda) {
  const auto cpu = MakeCpu();
  TestSet set(3, 64, Rope(RopePairing::kNeighbours, 64, 100000.0f), WeightType::kF16, 61);
  set.AddPaperGroups(2);
  double worst = 0;
  for (int group = 0; group < 2; ++group) {
    TestRows a(set, group, Positions(77, 1300), 62), b = a;
    for (auto [backend, rows] : {std::pair(&cuda, &a), {cpu.get(), &b}}) {
      SetHandle handle = 0;
      CHECK_OK(backend->Upload(set.view, &handle));
      CHECK_OK(backend->Rebuild({rows->Job(handle)}));
      CHECK_OK(backend->Release(handle));
    }
    worst = std::max(worst, MaxDifference(a, b));
  }
  const double tolerance = 3e-3 + 0x1p-9;  // results reach 4, where an fp16 step is 2^-8
  Note(Text(cuda.info().device, " against the CPU: largest difference ", worst, ", tolerance ", tolerance));
  CHECK(worst <= tolerance);
}

RISKKV_TEST(cuda_agrees_with_the_cpu) { CompareWithCpu(*MakeCuda()); }
RISKKV_TEST(cuda_agrees_with_the_cpu_fake) { CompareWithCpu(*MakeFakeCuda()); }

RISKKV_TEST(cuda_device_is_described) {
  const auto backend = MakeCuda();
  const DeviceInfo& info = backend->info();
  Note(Text(info.device, ", ", info.memory_bytes >> 20, " MiB; ", info.note));
  CHECK_EQ(info.backend, "cuda");
  CHECK(info.memory_bytes > 0 && !info.note.empty());
}

RISKKV_TEST(cuda_fake_devices_that_are_none) {
  std::unique_ptr<Backend> backend;
  const std::pair<FakeDevice, const char*> cases[] = {{FakeDevice::kNoDriver, "no CUDA device (error 35"},
                                                      {FakeDevice::kNone, "no CUDA device (error 0"},
                                                      {FakeDevice::kNoCode, "code for fake GPU (compute capability 9.0)"}};
  for (const auto& [device, text] : cases) {
    SetFakeDevice(device);
    const Status status = CreateFakeCudaBackend(&backend);
    SetFakeDevice(FakeDevice::kSound);
    CHECK_ERROR(status, Code::kUnavailable, text);
    CHECK(backend == nullptr);
  }
}

// Every call of a session fails once: the error comes out, nothing leaks, and the next session works. A Rebuild that
// failed leaves the backend usable, with the right bytes.
RISKKV_TEST(cuda_fake_every_call_may_fail) {
  TestSet set(1, 16, Rope(RopePairing::kHalves, 16), WeightType::kF32, 63);
  set.AddPaperGroups(2);
  TestRows a(set, 0, Positions(100, 300), 64), b(set, 1, Positions(0, 2100), 65);
  const auto sound = MakeFakeCuda();
  SetHandle sound_handle = 0;
  CHECK_OK(sound->Upload(set.view, &sound_handle));
  CHECK_OK(sound->Rebuild({a.Job(sound_handle), b.Job(sound_handle)}));
  const TestRows want_a = a, want_b = b;
  const int before = FakeObjects();
  int call = 0, in_rebuild = 0;
  for (bool reached = true; reached;) {
    FailFakeCall(++call);
    std::unique_ptr<Backend> backend;
    SetHandle handle = 0;
    Status status = CreateFakeCudaBackend(&backend);
    if (status.ok()) status = backend->Upload(set.view, &handle);
    if (status.ok()) {
      const std::vector<RebuildJob> jobs = {a.Job(handle), b.Job(handle)};
      a.Scrub(), b.Scrub();
      status = backend->Rebuild(jobs);
      if (!status.ok()) {
        ++in_rebuild;
        CHECK_OK(backend->Rebuild(jobs));
      }
      CHECK(a.target_k == want_a.target_k && a.target_v == want_a.target_v);
      CHECK(b.target_k == want_b.target_k && b.target_v == want_b.target_v);
    }
    reached = FakeCallFailed();
    FailFakeCall(0);
    CHECK_EQ(status.ok(), !reached);
    if (!status.ok()) CHECK(status.message().find("(") != std::string::npos);
    backend.reset();
    CHECK_EQ(FakeObjects(), before);
  }
  Note(Text(call - 1, " calls failed in turn, ", in_rebuild, " of them in Rebuild"));
  CHECK(in_rebuild > 40);
}

RISKKV_TEST(cuda_fake_nothing_is_allocated_once_warm) {
  const auto backend = MakeFakeCuda();
  TestSet set(2, 16, Rope(RopePairing::kHalves, 16), WeightType::kF16, 66);
  set.AddPaperGroups(1);
  SetHandle handle = 0;
  CHECK_OK(backend->Upload(set.view, &handle));
  TestRows rows(set, 0, Positions(0, 3000), 67);
  CHECK_OK(backend->Rebuild({rows.Job(handle, 0, 1)}));
  const int warm = FakeObjects();
  CHECK_OK(backend->Rebuild({rows.Job(handle), rows.Job(handle, 5, 900)}));
  CHECK_EQ(FakeObjects(), warm);
}

RISKKV_TEST(cuda_a_weight_beyond_fp16_is_refused_at_upload) {
  const auto backend = MakeFakeCuda();
  TestSet set(1, 8, Rope(RopePairing::kNone, 0), WeightType::kF32, 68);
  set.AddPaperGroups(2);
  set.SetB(1, 3, 5, -70000.0f);
  SetHandle handle = 0;
  CHECK_ERROR(backend->Upload(set.view, &handle), Code::kInvalidArgument, "group 1: weight [3, 5] is -70000.0");
}

RISKKV_TEST(cuda_chunks_cover_every_token_once) {
  TestSet set(1, 2, Rope(RopePairing::kNone, 0), WeightType::kF32, 69);
  set.AddPaperGroups(1);
  std::vector<TestRows> rows;
  for (const auto& [first, count] : {std::pair(0, 128), {5, 3000}, {1000, 1}, {127, 2}}) {
    rows.emplace_back(set, 0, Positions(first, count), 70);
  }
  std::vector<Tile> tiles;
  std::vector<Chunk> chunks;
  for (std::size_t j = 0; j < rows.size(); ++j) AppendTiles(rows[j].Job(1), j, &tiles);
  AppendChunks(tiles, &chunks);
  std::vector<int> next(rows.size(), 0);
  for (const Chunk& chunk : chunks) {
    CHECK(chunk.n_tiles >= 1 && chunk.n_tiles <= kChunkTiles);
    CHECK_EQ(chunk.first_token, next[chunk.job]);
    next[chunk.job] += chunk.n_tokens;
  }
  for (std::size_t j = 0; j < rows.size(); ++j) CHECK_EQ(next[j], rows[j].n_tokens());
  CHECK_EQ(chunks.size(), 1u + 3u + 1u + 1u);
}

}  // namespace
}  // namespace riskkv::kernels::test

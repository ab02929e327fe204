// What is CUDA's alone in the coded transforms: the comparison of both backends and the fault paths.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/fp16.h"
#include "kernels/tests/backends.h"
#include "kernels/tests/codec_problem.h"
#include "kernels/tests/problem.h"

namespace riskkv::kernels::test {
namespace {

// SmolLM2's rows; a small model for the fake device, whose products are plain loops. An encoder on one and a decoder on
// the other: levels may differ where a residual lies on a threshold, cells from the same levels by fp16's step.
void CompareCodecs(Backend& cuda, CodecSize size) {
  const auto cpu = MakeCpu();
  const TestCodec codec(size, Rope(RopePairing::kNeighbours, size.head_dim, 100000.0f), false, 111);
  TestBlock ours(codec, 900, kTileTokens, std::vector<float>(codec.view.units.size(), 0.25f), 112), theirs = ours;
  CodecHandle here = 0, there = 0;
  CHECK_OK(cuda.codec().Upload(codec.view, &here));
  CHECK_OK(cpu->codec().Upload(codec.view, &there));
  CHECK_OK(ours.Quantise(cuda.codec(), here));
  CHECK_OK(theirs.Quantise(cpu->codec(), there));
  std::size_t differ = 0, all = 0;
  for (int u = 0; u < codec.units(); ++u) {
    for (std::size_t i = 0; i < ours.levels[u].size(); ++i) differ += ours.levels[u][i] != theirs.levels[u][i] ? 1 : 0;
    all += ours.levels[u].size();
  }
  Note(Text(cuda.info().device, " against the CPU: ", differ, " of ", all, " levels differ"));
  CHECK(differ * 1000 <= all);
  ours.levels = theirs.levels;
  CHECK_OK(ours.Reconstruct(cuda.codec(), here));
  CHECK_OK(theirs.Reconstruct(cpu->codec(), there));
  double worst = 0;
  for (std::size_t i = 0; i < ours.cells.size(); ++i) {
    const double a = HalfToFloat(ours.cells[i]), b = HalfToFloat(theirs.cells[i]);
    worst = std::max(worst, std::abs(a - b) / std::max(1.0, std::abs(a)));
  }
  Note(Text("largest difference of a decoded cell ", worst, " of it"));
  CHECK(worst <= 0x1p-10 + 1e-5);
}

RISKKV_TEST(codec_cuda_agrees_with_the_cpu) { CompareCodecs(*MakeCuda(), {6, 3, 64}); }
RISKKV_TEST(codec_cuda_agrees_with_the_cpu_fake) { CompareCodecs(*MakeFakeCuda(), {6, 2, 12}); }

// Every call of a session fails once: the error comes out, nothing leaks, and the same backend works afterwards.
RISKKV_TEST(codec_cuda_fake_every_call_may_fail) {
  const TestCodec codec({4, 1, 8}, Rope(RopePairing::kHalves, 8), true, 113);
  const std::vector<float> steps = {0.25f, 0.0f, std::numeric_limits<float>::infinity(), 0.5f};
  const auto sound = MakeFakeCuda();
  CodecHandle sound_handle = 0;
  CHECK_OK(sound->codec().Upload(codec.view, &sound_handle));
  TestBlock want(codec, 100, 90, steps, 114);
  const TestBlock fresh = want;
  CHECK_OK(want.Quantise(sound->codec(), sound_handle));
  TestBlock want_decoded = want;
  CHECK_OK(want_decoded.Reconstruct(sound->codec(), sound_handle));
  const int before = FakeObjects();
  int call = 0, in_use = 0;
  for (bool reached = true; reached;) {
    std::unique_ptr<Backend> backend = MakeFakeCuda();
    FailFakeCall(++call);
    CodecHandle handle = 0;
    Status status = backend->codec().Upload(codec.view, &handle);
    if (status.ok()) {
      TestBlock block = fresh, decoded = want;
      status = block.Quantise(backend->codec(), handle);
      if (status.ok()) status = decoded.Reconstruct(backend->codec(), handle);
      if (!status.ok()) {
        ++in_use;
        block = fresh, decoded = want;
        CHECK_OK(block.Quantise(backend->codec(), handle));
        CHECK_OK(decoded.Reconstruct(backend->codec(), handle));
      }
      CHECK(block.levels == want.levels && decoded.cells == want_decoded.cells);
    }
    reached = FakeCallFailed();
    FailFakeCall(0);
    CHECK_EQ(status.ok(), !reached);
    if (!status.ok()) CHECK(status.message().find("(") != std::string::npos);
    backend.reset();
    CHECK_EQ(FakeObjects(), before);
  }
  Note(Text(call - 1, " calls failed in turn, ", in_use, " of them in use"));
  CHECK(in_use > 40);
}

RISKKV_TEST(codec_cuda_fake_nothing_is_allocated_once_warm) {
  const auto backend = MakeFakeCuda();
  const TestCodec codec({4, 1, 8}, Rope(RopePairing::kHalves, 8), false, 115);
  CodecHandle handle = 0;
  CHECK_OK(backend->codec().Upload(codec.view, &handle));
  TestBlock block(codec, 0, 3, {0.5f, 0.5f}, 116), larger(codec, 100, kTileTokens, {0.5f, 0.0f}, 117);
  CHECK_OK(block.Quantise(backend->codec(), handle));
  const int warm = FakeObjects();
  CHECK_OK(larger.Quantise(backend->codec(), handle));
  CHECK_OK(larger.Reconstruct(backend->codec(), handle));
  CHECK_EQ(FakeObjects(), warm);
}

}  // namespace
}  // namespace riskkv::kernels::test

// The coded transforms against the oracle, and what they promise: the same levels and cells in any block and thread.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "kernels/tests/alloc_counter.h"
#include "kernels/tests/backends.h"
#include "kernels/tests/codec_problem.h"
#include "kernels/tests/problem.h"

namespace riskkv::kernels::test {
namespace {

constexpr float kOmit = std::numeric_limits<float>::infinity();
constexpr float kExact = 0.0f;

// fp32 sums of a few hundred terms of about one, in steps of at least a tenth; the same on every backend.
constexpr double kLevelTolerance = 2e-4;
constexpr double kCellTolerance = 2e-5;

CodecHandle UploadCodec(Backend& backend, const TestCodec& codec) {
  CodecHandle handle = 0;
  const Status status = backend.codec().Upload(codec.view, &handle);
  if (!status.ok()) throw Failure(status.message());
  return handle;
}

std::vector<float> Steps(const TestCodec& codec, float step) {
  return std::vector<float>(codec.view.units.size(), step);
}

// Exact, coded and omitted units, in an order that feeds each kind from each.
std::vector<float> MixedSteps(const TestCodec& codec) {
  const float steps[] = {0.25f, kExact, kOmit, 0.5f, 0.1f, kOmit, kExact};
  std::vector<float> out;
  for (int u = 0; u < codec.units(); ++u) out.push_back(steps[u % 7]);
  return out;
}

// Levels and cells, from and back to the oracle's.
void CheckAgainstOracle(Backend& backend, const TestCodec& codec, TestBlock block) {
  const CodecHandle handle = UploadCodec(backend, codec);
  CHECK_OK(block.Quantise(backend.codec(), handle));
  const CodecOracle oracle = RunCodecOracle(codec, block);
  const double level_error = LevelError(codec, block, oracle);
  if (!(level_error <= kLevelTolerance)) RISKKV_FAIL("levels are off by ", level_error, " steps");
  CHECK_OK(block.Reconstruct(backend.codec(), handle));
  const double cell_error = CellError(codec, block, oracle);
  if (!(cell_error <= kCellTolerance)) RISKKV_FAIL("cells are off by ", cell_error);
  CHECK_OK(backend.codec().Release(handle));
}

RISKKV_BACKEND_TEST(codec_agrees_with_the_oracle) {
  std::mt19937 random(71);
  for (int round = 0; round < 14; ++round) {
    const CodecSize size{1 + static_cast<int>(random() % 9), 1 + static_cast<int>(random() % 3),
                         2 * (1 + static_cast<int>(random() % 6))};
    const RopePairing pairing = round % 3 == 0   ? RopePairing::kNone
                                : round % 3 == 1 ? RopePairing::kNeighbours
                                                 : RopePairing::kHalves;
    // Now and then only a part of the head turns.
    RopeParams rope = Rope(pairing, pairing == RopePairing::kNone ? 0 : round % 2 == 0 ? size.head_dim : 2, 1000.0f);
    if (round == 4) rope.freq_factors.assign(rope.rotary_dim / 2, 1.5f);
    const TestCodec codec(size, rope, round % 2 == 1, 72 + round);
    const int first = static_cast<int>(random() % 5000), count = 1 + static_cast<int>(random() % kTileTokens);
    const std::vector<float> steps = round % 4 == 3 ? MixedSteps(codec) : Steps(codec, 0.1f * (1 + round % 5));
    CheckAgainstOracle(backend, codec, TestBlock(codec, first, count, steps, 90 + round));
  }
}

// Widths that are no multiple of a panel, of several panels, and a model's own heads.
RISKKV_BACKEND_TEST(codec_agrees_with_the_oracle_on_wider_units) {
  const TestCodec codec({4, 3, 22}, Rope(RopePairing::kNeighbours, 22), false, 73);
  CheckAgainstOracle(backend, codec, TestBlock(codec, 1000, kTileTokens, MixedSteps(codec), 74));
}

// What streams: the blocks of a move and of the next are never the same.
RISKKV_BACKEND_TEST(codec_a_token_does_not_depend_on_its_block) {
  const TestCodec codec({8, 2, 8}, Rope(RopePairing::kHalves, 8), false, 75);
  const CodecHandle handle = UploadCodec(backend, codec);
  TestBlock whole(codec, 300, kTileTokens, MixedSteps(codec), 76);
  const std::vector<uint16_t> exact = whole.cells;
  CHECK_OK(whole.Quantise(backend.codec(), handle));
  TestBlock decoded = whole;
  CHECK_OK(decoded.Reconstruct(backend.codec(), handle));
  std::mt19937 random(77);
  for (int begin = 0, end = 0; begin < whole.n_tokens; begin = end) {
    end = std::min(whole.n_tokens, begin + 1 + static_cast<int>(random() % 60));
    const TestBlock want = whole.Part(codec, begin, end);
    TestBlock part = want;
    for (auto& unit : part.levels) std::fill(unit.begin(), unit.end(), -77);
    CHECK_OK(part.Quantise(backend.codec(), handle));
    CHECK(part.levels == want.levels);
    CHECK_OK(part.Reconstruct(backend.codec(), handle));
    CHECK(part.cells == decoded.Part(codec, begin, end).cells);
  }
  // Exact units' cells were the caller's all along.
  for (std::size_t u = 0; u < whole.steps.size(); ++u) {
    if (whole.steps[u] != kExact) continue;
    for (CodecPlane plane : codec.view.units[u].planes) {
      const std::size_t n = static_cast<std::size_t>(whole.n_tokens) * codec.kv();
      const std::size_t at = (2 * static_cast<std::size_t>(plane.layer) + plane.part) * n;
      CHECK(std::equal(exact.begin() + at, exact.begin() + at + n, decoded.cells.begin() + at));
    }
  }
}

// Blocks of other codecs and sizes before it leave rows behind that must not matter.
RISKKV_BACKEND_TEST(codec_a_block_does_not_depend_on_those_before_it) {
  const TestCodec small({5, 1, 6}, Rope(RopePairing::kHalves, 6), true, 78);
  const TestCodec large({6, 3, 8}, Rope(RopePairing::kNone, 0), false, 79);
  const CodecHandle a = UploadCodec(backend, small), b = UploadCodec(backend, large);
  TestBlock first(small, 10, 40, Steps(small, 0.25f), 80);
  CHECK_OK(first.Quantise(backend.codec(), a));
  TestBlock other(large, 3, kTileTokens, Steps(large, 0.01f), 81);
  CHECK_OK(other.Quantise(backend.codec(), b));
  CHECK_OK(other.Reconstruct(backend.codec(), b));
  CHECK_OK(backend.codec().Multiply(b, 3, 9));
  TestBlock again(small, 10, 40, Steps(small, 0.25f), 80);
  CHECK_OK(again.Quantise(backend.codec(), a));
  CHECK(again.levels == first.levels);
}

// A second move of the same request: the levels come back, so it adds no error but fp16's.
RISKKV_BACKEND_TEST(codec_a_decoded_cache_has_the_same_levels) {
  const TestCodec codec({6, 2, 8}, Rope(RopePairing::kNeighbours, 8), false, 82);
  const CodecHandle handle = UploadCodec(backend, codec);
  TestBlock block(codec, 7, 100, Steps(codec, 0.25f), 83);
  CHECK_OK(block.Quantise(backend.codec(), handle));
  TestBlock decoded = block;
  CHECK_OK(decoded.Reconstruct(backend.codec(), handle));
  CHECK_OK(decoded.Quantise(backend.codec(), handle));
  CHECK(decoded.levels == block.levels);
}

RISKKV_BACKEND_TEST(codec_levels_stop_just_beyond_the_largest) {
  TestCodec codec({2, 1, 4}, Rope(RopePairing::kNone, 0), false, 84);
  codec.view.largest_level = 1000;
  const CodecHandle handle = UploadCodec(backend, codec);
  TestBlock block(codec, 0, 3, Steps(codec, 1e-4f), 85);
  CHECK_OK(block.Quantise(backend.codec(), handle));
  int stopped = 0;
  for (const int32_t level : block.levels[0]) {
    CHECK(std::abs(level) <= 1001);
    stopped += std::abs(level) == 1001 ? 1 : 0;
  }
  CHECK(stopped > 10);
}

RISKKV_BACKEND_TEST(codec_threads_get_the_results_of_one) {
  const TestCodec codec({6, 2, 8}, Rope(RopePairing::kHalves, 8), false, 86);
  const CodecHandle handle = UploadCodec(backend, codec);
  std::vector<TestBlock> want, decoded;
  for (int i = 0; i < 3; ++i) {
    want.emplace_back(codec, 50 * i, 30 + 20 * i, MixedSteps(codec), 87 + i);
    CHECK_OK(want[i].Quantise(backend.codec(), handle));
    decoded.push_back(want[i]);
    CHECK_OK(decoded[i].Reconstruct(backend.codec(), handle));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, k = i % 3] {
      for (int round = 0; round < 10; ++round) {
        TestBlock block = want[k];
        const bool ok = block.Quantise(backend.codec(), handle).ok() && block.levels == want[k].levels &&
                        block.Reconstruct(backend.codec(), handle).ok() && block.cells == decoded[k].cells;
        if (!ok) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(wrong.load(), 0);
}

RISKKV_TEST(codec_nothing_is_allocated_once_warm_cpu) {
  const auto backend = MakeCpu();
  const TestCodec codec({6, 2, 8}, Rope(RopePairing::kHalves, 8), false, 88);
  const CodecHandle handle = UploadCodec(*backend, codec);
  TestBlock block(codec, 100, kTileTokens, MixedSteps(codec), 89);
  const auto levels = block.Levels();
  const CodecBlock view = block.Block(handle);
  CHECK_OK(backend->codec().Quantise(view, block.cells.data(), levels.data()));
  const long before = AllocationCount();
  const Status quantised = backend->codec().Quantise(view, block.cells.data(), levels.data());
  const Status decoded = backend->codec().Reconstruct(view, levels.data(), block.cells.data());
  const long after = AllocationCount();
  CHECK_OK(quantised);
  CHECK_OK(decoded);
  CHECK_EQ(after - before, 0);
}

}  // namespace
}  // namespace riskkv::kernels::test

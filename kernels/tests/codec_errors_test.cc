// What the coded transforms refuse, and that the message names the thing and the values.
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/fp16.h"
#include "kernels/tests/backends.h"
#include "kernels/tests/codec_problem.h"
#include "kernels/tests/problem.h"

namespace riskkv::kernels::test {
namespace {

struct CodecFixture {
  CodecFixture() : codec({4, 2, 8}, Rope(RopePairing::kHalves, 8), false, 101) {}
  CodecHandle Upload(Backend& backend) const {
    CodecHandle handle = 0;
    const Status status = backend.codec().Upload(codec.view, &handle);
    if (!status.ok()) throw Failure(status.message());
    return handle;
  }
  TestCodec codec;  // two units of width 64, the second from the first
};

RISKKV_BACKEND_TEST(codec_errors_upload_names_the_values) {
  CodecFixture f;
  const auto refuse = [&](const std::function<void(CodecView*)>& spoil, const char* text) {
    CodecView view = f.codec.view;
    spoil(&view);
    CodecHandle handle = 99;
    CHECK_ERROR(backend.codec().Upload(view, &handle), Code::kInvalidArgument, text);
    CHECK_EQ(handle, 99u);
  };
  using View = CodecView*;
  std::vector<float> scale = f.codec.scale, mean = f.codec.mean;
  scale[3] = 0;
  mean[2 * 16 + 5] = NAN;
  refuse([](View v) { v->n_head_kv = 0; }, "n_head_kv is 0 and head_dim 8");
  refuse([](View v) { v->rope.rotary_dim = 7; }, "rotary_dim is 7, must be even");
  refuse([](View v) { v->n_layer = 0; }, "n_layer is 0");
  refuse([](View v) { v->mean = nullptr; }, "no means");
  refuse([&](View v) { v->scale = scale.data(); }, "values of layer 1: the scale is 0.0");
  refuse([&](View v) { v->mean = mean.data(); }, "keys of layer 1: mean [5] is");
  refuse([](View v) { v->dead_zone = 1; }, "dead_zone is 1.0");
  refuse([](View v) { v->largest_level = 0; }, "largest_level is 0");
  refuse([](View v) { v->units[1].planes.clear(); }, "unit 1 has no planes");
  refuse([](View v) { v->units[1].planes[0].layer = 4; }, "unit 1 has part 0 of layer 4, the model has 4 layers");
  refuse([](View v) { v->units[1].planes[0] = {1, 1}; }, "unit 1 has the values of layer 1, an earlier unit too");
  refuse([](View v) { v->units[1].planes.pop_back(); }, "no unit has the values of layer 3");
  refuse([](View v) { v->units[1].conditions = {1}; }, "unit 1: condition 1 is not an earlier unit");
  refuse([](View v) { v->units[1].conditions = {0, 0}; }, "unit 1: condition 0 is not an earlier unit, ascending");
  refuse([](View v) { v->units[0].rotation = nullptr; }, "unit 0 has no rotation");
  refuse([](View v) { v->units[1].predictor = nullptr; }, "unit 1 has conditions and no predictor");
}

RISKKV_BACKEND_TEST(codec_errors_unknown_codecs_are_not_found) {
  CodecFixture f;
  TestBlock block(f.codec, 0, 4, {1, 1}, 102);
  CHECK_ERROR(block.Quantise(backend.codec(), 12345), Code::kNotFound, "12345");
  CHECK_ERROR(backend.codec().Release(12345), Code::kNotFound, "12345");
  const CodecHandle handle = f.Upload(backend);
  CHECK_OK(backend.codec().Release(handle));
  CHECK_ERROR(backend.codec().Release(handle), Code::kNotFound, std::to_string(handle));
  CHECK_ERROR(block.Reconstruct(backend.codec(), handle), Code::kNotFound, std::to_string(handle));
  CHECK_ERROR(backend.codec().Multiply(handle, 0, 1), Code::kNotFound, std::to_string(handle));
}

RISKKV_BACKEND_TEST(codec_errors_blocks_name_the_values) {
  CodecFixture f;
  const CodecHandle handle = f.Upload(backend);
  TestBlock block(f.codec, 0, 4, {1, 1}, 103);
  const TestBlock untouched = block;
  const auto refuse = [&](const std::function<void(CodecBlock*)>& spoil, const char* text) {
    CodecBlock view = block.Block(handle);
    spoil(&view);
    CHECK_ERROR(backend.codec().Quantise(view, block.cells.data(), block.Levels().data()), Code::kInvalidArgument,
                text);
    CHECK_ERROR(backend.codec().Reconstruct(view, block.Levels().data(), block.cells.data()), Code::kInvalidArgument,
                text);
    CHECK(block.levels == untouched.levels && block.cells == untouched.cells);
  };
  using View = CodecBlock*;
  const float negative[] = {1, -2}, nan[] = {NAN, 1};
  refuse([](View b) { b->n_tokens = 0; }, "a block of 0 tokens, must be 1 to 128");
  refuse([](View b) { b->n_tokens = 129; }, "a block of 129 tokens");
  refuse([](View b) { b->first = -1; }, "a block at position -1");
  refuse([](View b) { b->first = int64_t{1} << 31; }, "a block at position 2147483648");
  refuse([](View b) { b->n_units = 3; }, "a block of 3 units, the codec has 2");
  refuse([](View b) { b->steps = nullptr; }, "a block's steps are null");
  refuse([&](View b) { b->steps = negative; }, "unit 1: step -2.0");
  refuse([&](View b) { b->steps = nan; }, "unit 0: step");
  std::vector<int32_t*> levels = block.Levels();
  levels[1] = nullptr;
  CHECK_ERROR(backend.codec().Quantise(block.Block(handle), block.cells.data(), levels.data()),
              Code::kInvalidArgument, "unit 1: its levels are null");
  CHECK_ERROR(backend.codec().Quantise(block.Block(handle), nullptr, levels.data()), Code::kInvalidArgument,
              "cells are null");
}

RISKKV_BACKEND_TEST(codec_errors_cells_that_are_not_finite_are_refused_by_name) {
  CodecFixture f;
  const CodecHandle handle = f.Upload(backend);
  for (const uint16_t bad : {0x7c00, 0xfc00, 0x7e00}) {
    TestBlock block(f.codec, 200, 30, {1, 1}, 104);
    block.cells[((2 * 2 + 1) * 30 + 17) * 16 + 8 + 3] = bad;  // V of layer 2, token 17, head 1, element 3
    CHECK_ERROR(block.Quantise(backend.codec(), handle), Code::kInvalidArgument,
                "the values of layer 2 at position 217 are not finite (head 1, element 3)");
  }
}

// Levels come from a peer: whatever they are, a cell is finite or refused.
RISKKV_BACKEND_TEST(codec_errors_levels_that_lead_beyond_fp16_are_refused_by_name) {
  CodecFixture f;
  // Of unit 1 alone, and its coordinate 0 reaches one element of one plane: K of layer 3, head 0, element 2.
  std::vector<float> identity(64 * 64, 0.0f);
  for (int i = 0; i < 64; ++i) identity[65 * i] = 1;
  identity[65 * 18] = 0, identity[65 * 0] = 0;
  identity[18 * 64 + 0] = 1, identity[0 * 64 + 18] = 1;
  f.codec.view.units[1].rotation = identity.data();
  f.codec.view.units[1].planes = {{2, 0}, {3, 0}, {2, 1}, {3, 1}};
  f.codec.view.rope = Rope(RopePairing::kNone, 0);
  const CodecHandle handle = f.Upload(backend);
  TestBlock block(f.codec, 1000, 20, {1, 1}, 105);
  for (auto& unit : block.levels) std::fill(unit.begin(), unit.end(), 0);
  block.levels[1][0 * 20 + 7] = 1 << 20;
  CHECK_ERROR(block.Reconstruct(backend.codec(), handle), Code::kOutOfRange,
              "unit 1: the decoded keys of layer 3 at position 1007 do not fit fp16 (head 0, element 2)");
  block.levels[1][0 * 20 + 7] = 3;
  CHECK_OK(block.Reconstruct(backend.codec(), handle));
}

// A weight that is no number makes levels that no coder takes, not undefined ones.
RISKKV_BACKEND_TEST(codec_errors_a_rotation_that_is_no_number_stops_the_levels) {
  CodecFixture f;
  f.codec.rotation[0][5] = NAN;
  const CodecHandle handle = f.Upload(backend);
  TestBlock block(f.codec, 0, 9, {1, 1}, 106);
  CHECK_OK(block.Quantise(backend.codec(), handle));
  CHECK_EQ(std::abs(block.levels[0][5 * 9]), f.codec.view.largest_level + 1);
}

}  // namespace
}  // namespace riskkv::kernels::test

// What is refused, and that the message names the thing and the values.
#include <cmath>
#include <functional>

#include "kernels/fp16.h"
#include "kernels/tests/backends.h"
#include "kernels/tests/problem.h"

namespace riskkv::kernels::test {
namespace {

constexpr Code kInvalid = Code::kInvalidArgument;

struct Fixture {
  Fixture() : set(2, 8, Rope(RopePairing::kHalves, 8), WeightType::kF32, 41) { set.AddPaperGroups(2); }
  TestSet set;
};

RISKKV_BACKEND_TEST(errors_upload_names_the_values) {
  Fixture f;
  const auto refuse = [&](const std::function<void(PredictorSetView*)>& spoil, const char* text) {
    PredictorSetView view = f.set.view;
    spoil(&view);
    SetHandle handle = 99;
    CHECK_ERROR(backend.Upload(view, &handle), kInvalid, text);
    CHECK_EQ(handle, 99u);
  };
  using View = PredictorSetView*;
  refuse([](View v) { v->n_head_kv = 0; }, "n_head_kv is 0 and head_dim 8");
  refuse([](View v) { v->head_dim = -3; }, "head_dim -3");
  refuse([](View v) { v->n_head_kv = 1 << 30; }, "n_head_kv is 1073741824");
  refuse([](View v) { v->rope.rotary_dim = 7; }, "rotary_dim is 7, must be even");
  refuse([](View v) { v->rope.rotary_dim = 10; }, "rotary_dim is 10, must be even, above 0 and at most head_dim 8");
  refuse([](View v) { v->rope.freq_base = 0; }, "freq_base is 0.0");
  refuse([](View v) { v->rope.freq_scale = NAN; }, "freq_scale is");
  refuse([](View v) { v->rope.freq_factors = {1, 2, 3}; }, "freq_factors has 3 entries, rotary_dim 8 needs 4");
  refuse([](View v) { v->rope.freq_factors = {1, 1, -2, 1}; }, "freq_factors[2] is -2.0");
  refuse([](View v) { v->groups.clear(); }, "no groups");
  refuse([](View v) { v->groups[1].targets.clear(); }, "group 1 has 4 anchors and 0 targets");
  refuse([](View v) { v->groups[1].targets[0] = 5; }, "group 1 names layer 5 twice");
  refuse([](View v) { v->groups[0].anchors[2] = -1; }, "group 0 names layer -1");
  refuse([](View v) { v->groups[1].b = nullptr; }, "group 1 has no weights");
  refuse([](View v) { v->groups[1].bias = nullptr; }, "group 1 has no bias");
  refuse([](View v) { v->n_head_kv = 1 << 14; }, "group 0 has a 1048576 x 524288 matrix");
}

RISKKV_BACKEND_TEST(errors_unknown_sets_are_not_found) {
  Fixture f;
  TestRows rows(f.set, 0, Positions(0, 4), 42);
  SetHandle handle = 0;
  CHECK_ERROR(backend.Rebuild({rows.Job(12345)}), Code::kNotFound, "12345");
  CHECK_ERROR(backend.Release(12345), Code::kNotFound, "12345");
  CHECK_OK(backend.Upload(f.set.view, &handle));
  CHECK_OK(backend.Release(handle));
  CHECK_ERROR(backend.Release(handle), Code::kNotFound, std::to_string(handle));
  CHECK_ERROR(backend.Rebuild({rows.Job(handle)}), Code::kNotFound, std::to_string(handle));
}

RISKKV_BACKEND_TEST(errors_jobs_name_the_values) {
  Fixture f;
  SetHandle handle = 0;
  CHECK_OK(backend.Upload(f.set.view, &handle));
  TestRows rows(f.set, 0, Positions(10, 4), 43), untouched = rows;
  const auto refuse = [&](const std::function<void(RebuildJob*)>& spoil, const char* text) {
    RebuildJob job = rows.Job(handle);
    spoil(&job);
    // A sound job before the bad one: nothing may be written before all jobs are checked.
    CHECK_ERROR(backend.Rebuild({rows.Job(handle), job}), kInvalid, text);
    CHECK(rows.target_k == untouched.target_k);
  };
  const int32_t twice[] = {3, 4, 4, 5}, negative[] = {-2, 0, 1, 2};
  using Job = RebuildJob*;
  refuse([](Job j) { j->group = 2; }, "job 1 asks for group 2, set");
  refuse([](Job j) { j->group = -1; }, "group -1");
  refuse([](Job j) { j->n_tokens = -5; }, "-5 tokens");
  refuse([](Job j) { j->positions = nullptr; }, "positions is null for 4 tokens");
  refuse([&](Job j) { j->positions = twice; }, "positions[2] is 4 after 4");
  refuse([&](Job j) { j->positions = negative; }, "positions[0] is -2");
  refuse([](Job j) { j->anchor_k.pop_back(); }, "anchor_k has 3 layers, group 0 needs 4");
  refuse([](Job j) { j->anchor_v.pop_back(); }, "anchor_v has 3 layers");
  refuse([](Job j) { j->target_k.push_back(j->target_k[0]); }, "target_k has 3 layers, group 0 needs 2");
  refuse([](Job j) { j->target_v.clear(); }, "target_v has 0 layers");
  refuse([](Job j) { j->target_v[1] = nullptr; }, "a row pointer is null");
}

// A row that fp16 cannot hold, by any way there is: overflow of the product, NaN and infinity in the weights or in the
// cache. The message says which group, layer and position.
RISKKV_BACKEND_TEST(errors_non_finite_results_are_refused) {
  for (const float bad : {70000.0f, HUGE_VALF, std::nanf("")}) {
    Fixture f;
    // Value column of the second target (layer 7 of group 1), head 1, element 2; fed by the value of anchor 0.
    const int kv = f.set.kv(), column = 3 * kv + 8 + 2;
    f.set.SetB(1, kv, column, std::isfinite(bad) ? 60000.0f : bad);
    SetHandle handle = 0;
    const Status uploaded = backend.Upload(f.set.view, &handle);
    CHECK_OK(uploaded);
    TestRows rows(f.set, 1, Positions(200, 100), 44);
    for (auto& element : rows.anchor_v[0]) element = 0;
    rows.anchor_v[0][static_cast<std::size_t>(77) * kv] = FloatToHalf(bad > 1e5f ? 1.0f : 2.0f);  // position 277
    const Status status = backend.Rebuild({rows.Job(handle)});
    // An infinite weight spoils every row (0 * inf), so only the overflow has one position.
    const char* where = std::isfinite(bad) ? "group 1: the rebuilt value of layer 7 at position 277" : "group 1: the";
    CHECK_ERROR(status, Code::kInternal, where);
    if (std::isfinite(bad)) CHECK_ERROR(status, Code::kInternal, "(head 1, element 2)");
    // The backend goes on working.
    TestRows sound(f.set, 0, Positions(0, 50), 45);
    CHECK_OK(backend.Rebuild({sound.Job(handle)}));
    CHECK(MaxError(f.set, sound) <= Tolerance(backend));
  }
}

RISKKV_BACKEND_TEST(errors_a_corrupt_anchor_is_refused) {
  Fixture f;
  SetHandle handle = 0;
  CHECK_OK(backend.Upload(f.set.view, &handle));
  for (const uint16_t bad : {0x7c00, 0xfc00, 0x7e00}) {
    TestRows rows(f.set, 0, Positions(0, 300), 46);
    rows.anchor_k[3][static_cast<std::size_t>(150) * f.set.kv() + 5] = bad;
    CHECK_ERROR(backend.Rebuild({rows.Job(handle)}), Code::kInternal, "at position 150");
  }
}

RISKKV_TEST(errors_cpu_threads_must_be_positive) {
  std::unique_ptr<Backend> backend;
  CHECK_ERROR(CreateBackend(BackendChoice::kCpu, 0, &backend), kInvalid, "cpu_threads is 0");
  CHECK(backend == nullptr);
}

}  // namespace
}  // namespace riskkv::kernels::test

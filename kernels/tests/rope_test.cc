#include "kernels/rope.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <vector>

#include "kernels/cpu/rope_table.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/tests/check.h"
#include "kernels/tests/problem.h"

namespace riskkv::kernels::test {
namespace {

struct RopeCase {
  RopePairing pairing;
  int n_head, head_dim, rotary_dim;
};

const RopeCase kCases[] = {{RopePairing::kNone, 2, 64, 0},        {RopePairing::kNeighbours, 3, 64, 64},
                           {RopePairing::kHalves, 2, 64, 64},     {RopePairing::kNeighbours, 2, 80, 32},
                           {RopePairing::kHalves, 4, 96, 40},     {RopePairing::kHalves, 1, 6, 2},
                           {RopePairing::kNeighbours, 8, 128, 128}};

SetShape ShapeOf(const RopeCase& c) {
  SetShape shape;
  shape.n_head_kv = c.n_head;
  shape.head_dim = c.head_dim;
  shape.kv = c.n_head * c.head_dim;
  shape.pairing = c.pairing;
  shape.rotary_dim = c.rotary_dim;
  return shape;
}

RopeParams ParamsOf(const RopeCase& c, bool factors) {
  RopeParams rope = Rope(c.pairing, c.rotary_dim, 500000.0f);
  rope.freq_scale = 0.5f;
  for (int i = 0; factors && i < c.rotary_dim / 2; ++i) rope.freq_factors.push_back(1.0f + 0.25f * i);
  return rope;
}

std::vector<float> RandomRow(int n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> row(n);
  for (float& value : row) value = normal(random);
  return row;
}

// Row of `position` from the table.
void Trig(const RopeTable& table, int32_t position, std::vector<float>* cosine, std::vector<float>* sine) {
  std::vector<double> start(2 * table.half() + 1);
  cosine->assign(table.half() + 1, 0.0f);
  sine->assign(table.half() + 1, 0.0f);
  table.Start(TileStart(position), start.data());
  table.Row(start.data(), TileRow(position), cosine->data(), sine->data());
}

RISKKV_TEST(rope_inverse_undoes_forward) {
  for (const RopeCase& c : kCases) {
    for (const bool factors : {false, true}) {
      const SetShape shape = ShapeOf(c);
      const RopeTable table(ParamsOf(c, factors));
      for (const int32_t position : {0, 1, 127, 128, 4095, 131071}) {
        std::vector<float> cosine, sine;
        Trig(table, position, &cosine, &sine);
        const std::vector<float> row = RandomRow(shape.kv, 11);
        std::vector<float> turned = row;
        RotateRow(shape, Turn::kForward, cosine.data(), sine.data(), turned.data());
        if (position > 0 && c.rotary_dim > 0) CHECK(turned != row);
        RotateRow(shape, Turn::kInverse, cosine.data(), sine.data(), turned.data());
        for (int e = 0; e < shape.kv; ++e) {
          CHECK(std::abs(turned[e] - row[e]) < 2e-6f);
          const bool passes = c.pairing == RopePairing::kNone || e % c.head_dim >= c.rotary_dim;
          if (passes) CHECK_EQ(turned[e], row[e]);
        }
      }
    }
  }
}

// Three ways to the same rotation: the vectorised rows, RopePairDims + RopeForward, and RopeElementAt, which is what
// the CUDA kernels use.
RISKKV_TEST(rope_rows_pairs_and_elements_agree) {
  for (const RopeCase& c : kCases) {
    if (c.pairing == RopePairing::kNone) continue;
    const SetShape shape = ShapeOf(c);
    std::vector<float> cosine, sine;
    Trig(RopeTable(ParamsOf(c, true)), 777, &cosine, &sine);
    for (const Turn turn : {Turn::kForward, Turn::kInverse}) {
      const std::vector<float> row = RandomRow(shape.kv, 12);
      std::vector<float> rows = row, pairs = row;
      RotateRow(shape, turn, cosine.data(), sine.data(), rows.data());
      for (int h = 0; h < c.n_head; ++h) {
        for (int i = 0; i < c.rotary_dim / 2; ++i) {
          int lo, hi;
          RopePairDims(c.pairing, c.rotary_dim, i, &lo, &hi);
          float* head = &pairs[h * c.head_dim];
          turn == Turn::kForward ? RopeForward(cosine[i], sine[i], &head[lo], &head[hi])
                                 : RopeInverse(cosine[i], sine[i], &head[lo], &head[hi]);
        }
      }
      const float direction = turn == Turn::kForward ? 1.0f : -1.0f;
      for (int e = 0; e < shape.kv; ++e) {
        const RopeElement element = RopeElementAt(c.pairing, c.rotary_dim, e % c.head_dim);
        const int head = e - e % c.head_dim;
        const float want = element.pair < 0 ? row[e]
                                            : row[e] * cosine[element.pair] + direction * element.sign *
                                                                                 row[head + element.partner] *
                                                                                 sine[element.pair];
        CHECK(std::abs(rows[e] - want) < 1e-6f);
        CHECK(std::abs(pairs[e] - want) < 1e-6f);
      }
    }
  }
}

// Every rotary dimension is in one pair, once.
RISKKV_TEST(rope_pairs_cover_the_rotary_dimensions) {
  for (const RopeCase& c : kCases) {
    std::set<int> seen;
    for (int i = 0; i < c.rotary_dim / 2; ++i) {
      int lo, hi;
      RopePairDims(c.pairing, c.rotary_dim, i, &lo, &hi);
      CHECK(seen.insert(lo).second && seen.insert(hi).second);
      CHECK_EQ(RopeElementAt(c.pairing, c.rotary_dim, lo).partner, hi);
      CHECK_EQ(RopeElementAt(c.pairing, c.rotary_dim, hi).partner, lo);
      CHECK_EQ(RopeElementAt(c.pairing, c.rotary_dim, hi).pair, i);
    }
    CHECK_EQ(static_cast<int>(seen.size()), c.rotary_dim);
    CHECK(seen.empty() || *seen.rbegin() == c.rotary_dim - 1);
  }
}

// The table by tile start and row, and RopeAngle + fp32 sine (the kernels' way), against long double.
RISKKV_TEST(rope_angles_are_accurate_at_any_position) {
  RopeParams rope = Rope(RopePairing::kHalves, 128, 1000000.0f);
  const RopeTable table(rope);
  double table_error = 0, angle_error = 0;
  for (const int32_t position : {0, 1, 127, 128, 129, 5000, 32767, 131072, 1048577}) {
    std::vector<float> cosine, sine;
    Trig(table, position, &cosine, &sine);
    for (int i = 0; i < 64; ++i) {
      const long double theta = position * std::pow(1000000.0L, -2.0L * i / 128);
      const double c = static_cast<double>(std::cos(theta)), s = static_cast<double>(std::sin(theta));
      table_error = std::max({table_error, std::abs(cosine[i] - c), std::abs(sine[i] - s)});
      const float angle = static_cast<float>(RopeAngle(position, RopeFrequency(rope, i)));
      angle_error = std::max({angle_error, std::abs(std::cos(angle) - c), std::abs(std::sin(angle) - s)});
    }
  }
  Note(Text("largest error: table ", table_error, " (at most 6.1e-8), angle ", angle_error, " (at most 3e-7)"));
  CHECK(table_error <= 6.1e-8);  // half an fp32 step of one, and a little
  CHECK(angle_error <= 3e-7);
}

// llama.cpp (ggml_rope_cache_init) multiplies the fp32 angle by an fp32 factor once a pair. Its drift from the true
// angle must stay below what fp16 resolves, or our inverse would not undo its rotation.
RISKKV_TEST(rope_distance_to_llama_cpp_is_below_fp16) {
  struct Model {
    float base;
    int dim;
  };
  for (const Model model : {Model{10000, 64}, {100000, 64}, {500000, 128}, {1000000, 64}, {1000000, 128}}) {
    const RopeParams rope = Rope(RopePairing::kHalves, model.dim, model.base);
    for (const int position : {511, 4095, 32767, 131071}) {
      const float scale = powf(model.base, -2.0f / model.dim);
      float theta = static_cast<float>(position);
      double worst = 0;
      for (int i = 0; i < model.dim / 2; ++i, theta *= scale) {
        worst = std::max(worst, std::abs(theta - position * RopeFrequency(rope, i)));
      }
      if (position > 4000) Note(Text("base ", model.base, ", ", model.dim, " dims, position ", position, ": ", worst));
      CHECK(worst < 1.2e-7 * position);
    }
  }
}

RISKKV_TEST(rope_freq_factors_divide_the_frequency) {
  RopeParams rope = Rope(RopePairing::kNeighbours, 8, 100.0f);
  CHECK(std::abs(RopeFrequency(rope, 2) - 0.1) < 1e-12);
  rope.freq_scale = 0.25f;
  rope.freq_factors = {1, 1, 8, 1};
  CHECK(std::abs(RopeFrequency(rope, 2) - 0.1 * 0.25 / 8) < 1e-12);
  CHECK(std::abs(RopeFrequency(rope, 1) - std::pow(100.0, -0.25) * 0.25) < 1e-12);
}

RISKKV_TEST(rope_index_maps) {
  CHECK_EQ(TileStart(0), 0);
  CHECK_EQ(TileStart(127), 0);
  CHECK_EQ(TileStart(128), 128);
  CHECK_EQ(TileRow(300), 44);
  CHECK_EQ(FeatureColumn(0, kPartKey, 192), 0);
  CHECK_EQ(FeatureColumn(0, kPartValue, 192), 192);
  CHECK_EQ(FeatureColumn(3, kPartKey, 192), 6 * 192);
  CHECK_EQ(PackedRow(1, kPartValue, 5, 100, 192), static_cast<std::size_t>((3 * 100 + 5) * 192));
}

}  // namespace
}  // namespace riskkv::kernels::test

#include "kernels/tests/problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/fp16.h"

namespace riskkv::kernels::test {
namespace {

constexpr uint16_t kPattern = 0xabcd;

double Get(const std::vector<uint8_t>& bytes, WeightType type, std::size_t i) {
  if (type == WeightType::kF16) {
    uint16_t half;
    std::memcpy(&half, &bytes[i * 2], 2);
    return HalfToFloat(half);
  }
  float value;
  std::memcpy(&value, &bytes[i * 4], 4);
  return value;
}

void Put(std::vector<uint8_t>* bytes, WeightType type, std::size_t i, float value) {
  const uint16_t half = FloatToHalf(value);
  if (type == WeightType::kF16) {
    std::memcpy(&(*bytes)[i * 2], &half, 2);
  } else {
    std::memcpy(&(*bytes)[i * 4], &value, 4);
  }
}

}  // namespace

void TurnKeys(const RopeParams& rope, int n_head, int head_dim, double position, double direction, double* row) {
  if (rope.pairing == RopePairing::kNone) return;
  for (int h = 0; h < n_head; ++h) {
    for (int i = 0; i < rope.rotary_dim / 2; ++i) {
      const double factor = rope.freq_factors.empty() ? 1.0 : rope.freq_factors[i];
      const double theta =
          position * rope.freq_scale / std::pow(double{rope.freq_base}, 2.0 * i / rope.rotary_dim) / factor;
      const bool halves = rope.pairing == RopePairing::kHalves;
      double& a = row[h * head_dim + (halves ? i : 2 * i)];
      double& b = row[h * head_dim + (halves ? i + rope.rotary_dim / 2 : 2 * i + 1)];
      const double c = std::cos(theta), s = direction * std::sin(theta), a0 = a, b0 = b;
      a = a0 * c - b0 * s;
      b = a0 * s + b0 * c;
    }
  }
}

TestSet::TestSet(int n_head_kv, int head_dim, RopeParams rope, WeightType type, uint32_t seed)
    : type_(type), random_(seed) {
  view.n_head_kv = n_head_kv;
  view.head_dim = head_dim;
  view.rope = std::move(rope);
}

std::vector<uint8_t> TestSet::Random(std::size_t n, double scale) {
  std::normal_distribution<float> normal(0.0f, static_cast<float>(scale));
  std::vector<uint8_t> bytes(n * (type_ == WeightType::kF16 ? 2 : 4));
  for (std::size_t i = 0; i < n; ++i) Put(&bytes, type_, i, normal(random_));
  return bytes;
}

void TestSet::AddGroup(std::vector<int> anchors, std::vector<int> targets) {
  GroupWeights group;
  group.anchors = std::move(anchors);
  group.targets = std::move(targets);
  group.type = type_;
  view.groups.push_back(group);
  const int last = static_cast<int>(view.groups.size()) - 1;
  b_.push_back(Random(static_cast<std::size_t>(d_in(last)) * d_out(last), 1.0 / std::sqrt(d_in(last))));
  bias_.push_back(Random(d_out(last), 0.5));
  // A vector that moves keeps its storage, so the earlier groups' pointers stay good.
  view.groups.back().b = b_.back().data();
  view.groups.back().bias = bias_.back().data();
}

void TestSet::AddPaperGroups(int count) {
  for (int g = 0; g < count; ++g) AddGroup({4 * g, 4 * g + 1, 4 * g + 4, 4 * g + 5}, {4 * g + 2, 4 * g + 3});
}

double TestSet::B(int group, int row, int column) const {
  return Get(b_[group], type_, static_cast<std::size_t>(row) * d_out(group) + column);
}

double TestSet::Bias(int group, int column) const { return Get(bias_[group], type_, column); }

void TestSet::SetB(int group, int row, int column, float value) {
  Put(&b_[group], type_, static_cast<std::size_t>(row) * d_out(group) + column, value);
}

TestRows::TestRows(const TestSet& set, int group, std::vector<int32_t> where, uint32_t seed)
    : group(group), kv(set.kv()), positions(std::move(where)) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const std::size_t n = positions.size() * kv;
  for (auto* rows : {&anchor_k, &anchor_v}) {
    rows->resize(set.view.groups[group].anchors.size(), std::vector<uint16_t>(n));
    for (auto& row : *rows) {
      for (uint16_t& element : row) element = FloatToHalf(normal(random));
    }
  }
  for (auto* rows : {&target_k, &target_v}) {
    rows->resize(set.view.groups[group].targets.size(), std::vector<uint16_t>(n, kPattern));
  }
}

RebuildJob TestRows::Job(SetHandle handle, int begin, int end) {
  RebuildJob job;
  job.set = handle;
  job.group = group;
  job.n_tokens = end - begin;
  job.positions = positions.data() + begin;
  const std::size_t from = static_cast<std::size_t>(begin) * kv;
  for (auto& row : anchor_k) job.anchor_k.push_back(row.data() + from);
  for (auto& row : anchor_v) job.anchor_v.push_back(row.data() + from);
  for (auto& row : target_k) job.target_k.push_back(row.data() + from);
  for (auto& row : target_v) job.target_v.push_back(row.data() + from);
  return job;
}

void TestRows::Scrub() {
  for (auto* rows : {&target_k, &target_v}) {
    for (auto& row : *rows) std::fill(row.begin(), row.end(), kPattern);
  }
}

std::vector<int32_t> Positions(int first, int count) {
  std::vector<int32_t> positions(count);
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

std::vector<std::vector<double>> Oracle(const TestSet& set, const TestRows& rows) {
  const PredictorSetView& view = set.view;
  const GroupWeights& group = view.groups[rows.group];
  const int kv = set.kv(), d_in = set.d_in(rows.group), d_out = set.d_out(rows.group);
  std::vector<double> b(static_cast<std::size_t>(d_in) * d_out);
  for (int i = 0; i < d_in; ++i) {
    for (int j = 0; j < d_out; ++j) b[static_cast<std::size_t>(i) * d_out + j] = set.B(rows.group, i, j);
  }
  std::vector<std::vector<double>> out(2 * group.targets.size());
  for (int t = 0; t < rows.n_tokens(); ++t) {
    std::vector<double> x, z(d_out);
    for (std::size_t a = 0; a < group.anchors.size(); ++a) {
      const uint16_t* k = rows.anchor_k[a].data() + static_cast<std::size_t>(t) * kv;
      const uint16_t* v = rows.anchor_v[a].data() + static_cast<std::size_t>(t) * kv;
      for (int e = 0; e < kv; ++e) x.push_back(HalfToFloat(k[e]));
      TurnKeys(view.rope, view.n_head_kv, view.head_dim, rows.positions[t], -1.0, &x[x.size() - kv]);
      for (int e = 0; e < kv; ++e) x.push_back(HalfToFloat(v[e]));
    }
    for (int j = 0; j < d_out; ++j) z[j] = set.Bias(rows.group, j);
    for (int i = 0; i < d_in; ++i) {
      const double* row = &b[static_cast<std::size_t>(i) * d_out];
      for (int j = 0; j < d_out; ++j) z[j] += x[i] * row[j];
    }
    for (std::size_t part = 0; part < out.size(); ++part) {
      double* row = &z[part * kv];
      if (part % 2 == 0) TurnKeys(view.rope, view.n_head_kv, view.head_dim, rows.positions[t], 1.0, row);
      out[part].insert(out[part].end(), row, row + kv);
    }
  }
  return out;
}

double MaxError(const TestSet& set, const TestRows& rows) {
  const auto want = Oracle(set, rows);
  double worst = 0.0;
  for (std::size_t part = 0; part < want.size(); ++part) {
    const std::vector<uint16_t>& got = part % 2 == 0 ? rows.target_k[part / 2] : rows.target_v[part / 2];
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = std::abs(HalfToFloat(got[i]) - want[part][i]) - std::abs(want[part][i]) * 0x1p-11;
      worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
    }
  }
  return worst;
}

double MaxDifference(const TestRows& a, const TestRows& b) {
  double worst = 0.0;
  for (std::size_t layer = 0; layer < a.target_k.size(); ++layer) {
    for (std::size_t i = 0; i < a.target_k[layer].size(); ++i) {
      const double k = std::abs(HalfToFloat(a.target_k[layer][i]) - HalfToFloat(b.target_k[layer][i]));
      const double v = std::abs(HalfToFloat(a.target_v[layer][i]) - HalfToFloat(b.target_v[layer][i]));
      worst = std::isnan(k + v) ? HUGE_VAL : std::max({worst, k, v});
    }
  }
  return worst;
}

RopeParams Rope(RopePairing pairing, int rotary_dim, float base) {
  RopeParams rope;
  rope.pairing = pairing;
  rope.rotary_dim = rotary_dim;
  rope.freq_base = base;
  return rope;
}

}  // namespace riskkv::kernels::test

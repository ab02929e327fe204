#include "kernels/tests/codec_problem.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/fp16.h"
#include "kernels/tests/problem.h"

namespace riskkv::kernels::test {
namespace {

// Orthonormal columns by Gram and Schmidt.
std::vector<float> RandomRotation(int n, std::mt19937* random) {
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> columns;
  while (static_cast<int>(columns.size()) < n) {
    std::vector<double> v(n);
    for (double& e : v) e = normal(*random);
    for (int round = 0; round < 2; ++round) {
      for (const auto& c : columns) {
        double dot = 0;
        for (int i = 0; i < n; ++i) dot += c[i] * v[i];
        for (int i = 0; i < n; ++i) v[i] -= dot * c[i];
      }
    }
    double norm = 0;
    for (double e : v) norm += e * e;
    for (double& e : v) e /= std::sqrt(norm);
    columns.push_back(std::move(v));
  }
  std::vector<float> out(static_cast<std::size_t>(n) * n);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) out[static_cast<std::size_t>(i) * n + j] = static_cast<float>(columns[j][i]);
  }
  return out;
}

// Element of a token's row in cells.
std::size_t At(const TestCodec& codec, CodecPlane plane, int token, int n_tokens) {
  return ((2 * static_cast<std::size_t>(plane.layer) + plane.part) * n_tokens + token) * codec.kv();
}

}  // namespace

TestCodec::TestCodec(CodecSize size, RopeParams rope, bool split, uint32_t seed) : random_(seed) {
  view.n_layer = size.n_layer;
  view.n_head_kv = size.n_head_kv;
  view.head_dim = size.head_dim;
  view.rope = std::move(rope);
  view.dead_zone = 0.6f;
  view.largest_level = 1 << 20;
  std::normal_distribution<float> normal;
  for (int i = 0; i < 2 * size.n_layer * kv(); ++i) mean.push_back(2 * normal(random_));
  for (int i = 0; i < 2 * size.n_layer; ++i) scale.push_back(0.5f + static_cast<float>(random_() % 100) / 50);
  for (int l = 0; l < size.n_layer; l += 2) {
    std::vector<CodecPlane> keys, values;
    for (int i = l; i < std::min(l + 2, size.n_layer); ++i) {
      keys.push_back({i, 0});
      values.push_back({i, 1});
    }
    if (!split) keys.insert(keys.end(), values.begin(), values.end());
    AddUnit(keys);
    if (split) AddUnit(values);
  }
  view.mean = mean.data();
  view.scale = scale.data();
  for (int u = 0; u < units(); ++u) {
    view.units[u].rotation = rotation[u].data();
    view.units[u].predictor = predictor[u].data();
  }
}

void TestCodec::AddUnit(std::vector<CodecPlane> planes) {
  CodecUnit unit;
  unit.planes = std::move(planes);
  // Not always the unit before: one further back, then the one before.
  const int u = units();
  if (u >= 3) unit.conditions.push_back(u - 3);
  if (u >= 1) unit.conditions.push_back(u - 1);
  view.units.push_back(std::move(unit));
  rotation.push_back(RandomRotation(width(u), &random_));
  std::normal_distribution<float> normal(0.0f, 0.7f / std::sqrt(static_cast<float>(std::max(1, from(u)))));
  predictor.emplace_back(static_cast<std::size_t>(from(u)) * width(u));
  for (float& w : predictor.back()) w = normal(random_);
}

int TestCodec::from(int u) const {
  int sum = 0;
  for (int c : view.units[u].conditions) sum += width(c);
  return sum;
}

TestBlock::TestBlock(const TestCodec& codec, int64_t first_position, int count, std::vector<float> unit_steps,
                     uint32_t seed)
    : first(first_position), n_tokens(count), steps(std::move(unit_steps)) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  cells.resize(codec.cells(n_tokens));
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t plane = i / codec.kv() / n_tokens;
    cells[i] = FloatToHalf(codec.mean[plane * codec.kv() + i % codec.kv()] + codec.scale[plane] * normal(random));
  }
  for (int u = 0; u < codec.units(); ++u) {
    const bool coded = steps[u] > 0 && std::isfinite(steps[u]);
    levels.emplace_back(coded ? static_cast<std::size_t>(codec.width(u)) * n_tokens : 0, -77);
  }
}

CodecBlock TestBlock::Block(CodecHandle handle) const {
  return {handle, first, n_tokens, static_cast<int>(steps.size()), steps.data()};
}

std::vector<int32_t*> TestBlock::Levels() {
  std::vector<int32_t*> out;
  for (auto& unit : levels) out.push_back(unit.empty() ? nullptr : unit.data());
  return out;
}

std::vector<const int32_t*> TestBlock::Levels() const {
  std::vector<const int32_t*> out;
  for (auto& unit : levels) out.push_back(unit.empty() ? nullptr : unit.data());
  return out;
}

TestBlock TestBlock::Part(const TestCodec& codec, int begin, int end) const {
  TestBlock part(codec, first + begin, end - begin, steps, 0);
  for (int p = 0; p < 2 * codec.view.n_layer; ++p) {
    const CodecPlane plane{p / 2, p % 2};
    std::copy_n(&cells[At(codec, plane, begin, n_tokens)], static_cast<std::size_t>(end - begin) * codec.kv(),
                &part.cells[At(codec, plane, 0, end - begin)]);
  }
  for (int u = 0; u < codec.units(); ++u) {
    for (std::size_t i = 0; i < part.levels[u].size(); ++i) {
      const std::size_t column = i / (end - begin), token = i % (end - begin);
      part.levels[u][i] = levels[u][column * n_tokens + begin + token];
    }
  }
  return part;
}

Status TestBlock::Quantise(CodecBackend& backend, CodecHandle handle) {
  return backend.Quantise(Block(handle), cells.data(), Levels().data());
}

Status TestBlock::Reconstruct(CodecBackend& backend, CodecHandle handle) {
  return backend.Reconstruct(Block(handle), std::as_const(*this).Levels().data(), cells.data());
}

namespace {

// A token's rows before RoPE, centred and scaled, unit u.
std::vector<double> OracleRows(const TestCodec& codec, const TestBlock& block, int u, int token) {
  std::vector<double> x;
  for (CodecPlane plane : codec.view.units[u].planes) {
    std::vector<double> row;
    const uint16_t* cells = &block.cells[At(codec, plane, token, block.n_tokens)];
    for (int j = 0; j < codec.kv(); ++j) row.push_back(HalfToFloat(cells[j]));
    if (plane.part == 0) {
      TurnKeys(codec.view.rope, codec.view.n_head_kv, codec.view.head_dim, static_cast<double>(block.first + token),
               -1.0, row.data());
    }
    const std::size_t p = 2 * static_cast<std::size_t>(plane.layer) + plane.part;
    for (int j = 0; j < codec.kv(); ++j) x.push_back((row[j] - codec.mean[p * codec.kv() + j]) / codec.scale[p]);
  }
  return x;
}

// x m, m [x.size(), n]; transposed: x m', m [n, n].
std::vector<double> Times(const std::vector<double>& x, const std::vector<float>& m, int n, bool transposed = false) {
  std::vector<double> out(n, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (int j = 0; j < n; ++j) out[j] += x[i] * (transposed ? m[static_cast<std::size_t>(j) * n + i] : m[i * n + j]);
  }
  return out;
}

}  // namespace

CodecOracle RunCodecOracle(const TestCodec& codec, const TestBlock& exact) {
  CodecOracle out;
  out.decoded.resize(exact.cells.size());
  const std::size_t n_units = codec.view.units.size();
  out.z.resize(n_units), out.y.resize(n_units), out.p.resize(n_units);
  for (int t = 0; t < exact.n_tokens; ++t) {
    std::vector<std::vector<double>> z;
    for (int u = 0; u < codec.units(); ++u) {
      const int width = codec.width(u);
      std::vector<double> from;
      for (int c : codec.view.units[u].conditions) from.insert(from.end(), z[c].begin(), z[c].end());
      const std::vector<double> y = Times(OracleRows(codec, exact, u, t), codec.rotation[u], width);
      const std::vector<double> p = Times(from, codec.predictor[u], width);
      std::vector<double> decoded = exact.steps[u] == 0 ? y : p;
      for (int j = 0; j < width && !exact.levels[u].empty(); ++j)
        decoded[j] += exact.steps[u] * exact.levels[u][static_cast<std::size_t>(j) * exact.n_tokens + t];
      out.z[u].insert(out.z[u].end(), decoded.begin(), decoded.end());
      out.y[u].insert(out.y[u].end(), y.begin(), y.end());
      out.p[u].insert(out.p[u].end(), p.begin(), p.end());
      const std::vector<double> rows = Times(decoded, codec.rotation[u], width, true);
      for (std::size_t i = 0; i < codec.view.units[u].planes.size(); ++i) {
        const CodecPlane plane = codec.view.units[u].planes[i];
        const std::size_t index = 2 * static_cast<std::size_t>(plane.layer) + plane.part;
        double* cell = &out.decoded[At(codec, plane, t, exact.n_tokens)];
        for (int j = 0; j < codec.kv(); ++j)
          cell[j] = codec.mean[index * codec.kv() + j] + codec.scale[index] * rows[i * codec.kv() + j];
        if (plane.part == 0) {
          TurnKeys(codec.view.rope, codec.view.n_head_kv, codec.view.head_dim, static_cast<double>(exact.first + t),
                   1.0, cell);
        }
      }
      z.push_back(std::move(decoded));
    }
  }
  return out;
}

double LevelError(const TestCodec& codec, const TestBlock& block, const CodecOracle& oracle) {
  double worst = 0;
  for (int u = 0; u < codec.units(); ++u) {
    for (std::size_t i = 0; i < block.levels[u].size(); ++i) {
      const std::size_t column = i / block.n_tokens, token = i % block.n_tokens;
      const std::size_t at = token * codec.width(u) + column;
      const double r = (oracle.y[u][at] - oracle.p[u][at]) / block.steps[u];
      const double m = std::abs(r) + 1.0 - double{codec.view.dead_zone};
      const int32_t level = block.levels[u][i];
      const double low = std::abs(level), high = low + 1;  // low <= m < high, and below it where the level is 0
      double error = std::max(m - high, level == 0 ? 0.0 : low - m);
      if (level != 0 && (level < 0) != (r < 0)) error = 1;
      worst = std::max(worst, error);
    }
  }
  return worst;
}

double CellError(const TestCodec& codec, const TestBlock& block, const CodecOracle& oracle) {
  double worst = 0;
  for (int u = 0; u < codec.units(); ++u) {
    if (block.steps[u] == 0) continue;
    for (CodecPlane plane : codec.view.units[u].planes) {
      const std::size_t at = At(codec, plane, 0, block.n_tokens);
      for (std::size_t i = at; i < at + static_cast<std::size_t>(block.n_tokens) * codec.kv(); ++i) {
        const double error =
            std::abs(HalfToFloat(block.cells[i]) - oracle.decoded[i]) - std::abs(oracle.decoded[i]) * 0x1p-11;
        worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
      }
    }
  }
  return worst;
}

}  // namespace riskkv::kernels::test

#include "common/predictor/ridge.h"

#include <cmath>
#include <random>

#include "common/predictor/fold.h"
#include "tests/testing/status_matchers.h"

namespace riskkv {
namespace {

using Matrix = std::vector<double>;  // row-major

Matrix RandomMatrix(std::mt19937& rng, int rows, int columns, double scale = 1.0, double shift = 0.0) {
  std::normal_distribution<double> normal(shift, scale);
  Matrix m(static_cast<std::size_t>(rows) * columns);
  for (double& v : m) v = normal(rng);
  return m;
}

// x [n, d] times w [d, k], plus c [k] where given.
Matrix Times(const Matrix& x, const Matrix& w, int n, int d, int k, const Matrix& c = {}) {
  Matrix out(static_cast<std::size_t>(n) * k);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < k; ++j) {
      double sum = c.empty() ? 0 : c[j];
      for (int m = 0; m < d; ++m) sum += x[i * d + m] * w[m * k + j];
      out[i * k + j] = sum;
    }
  }
  return out;
}

double RelativeDifference(const Matrix& a, const Matrix& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

RidgeAccumulator Sums(const Matrix& x, const Matrix& y, int n, int d_in, int d_out) {
  RidgeAccumulator sums(d_in, d_out);
  // In uneven pieces: the result must not depend on how rows arrive.
  for (int at = 0; at < n;) {
    const int rows = std::min(n - at, 1 + at % 7);
    sums.Add(x.data() + static_cast<std::size_t>(at) * d_in, y.data() + static_cast<std::size_t>(at) * d_out,
             rows);
    at += rows;
  }
  return sums;
}

// One feature, by hand: C = var(x), A = cov(x, y) / (C + lambda C), b = mean(y) - A mean(x).
TEST(Ridge, OneFeatureByHand) {
  const Matrix x = {1, 2, 3, 6}, y = {1, 3, 2, 10};
  ASSERT_OK_AND_ASSIGN(const RidgeSolver solver, RidgeSolver::Create(Sums(x, y, 4, 1, 1)));
  ASSERT_OK_AND_ASSIGN(const RidgeSolution s, solver.Solve(0.5));
  const double mean_x = 3, mean_y = 4, variance = (4 + 1 + 0 + 9) / 4.0, covariance = (6 + 1 + 0 + 18) / 4.0;
  EXPECT_NEAR(solver.mean_feature_variance(), variance, 1e-12);
  EXPECT_NEAR(s.a[0], covariance / (1.5 * variance), 1e-12);
  EXPECT_NEAR(s.b[0], mean_y - s.a[0] * mean_x, 1e-12);
}

TEST(Ridge, InterceptIsNotPenalised) {
  std::mt19937 rng(1);
  const int n = 50, d = 4;
  const Matrix x = RandomMatrix(rng, n, d, 1.0, 100.0);
  Matrix y(n, 7.0);
  ASSERT_OK_AND_ASSIGN(const RidgeSolver solver, RidgeSolver::Create(Sums(x, y, n, d, 1)));
  ASSERT_OK_AND_ASSIGN(const RidgeSolution s, solver.Solve(10.0));
  for (double a : s.a) EXPECT_NEAR(a, 0, 1e-9);
  EXPECT_NEAR(s.b[0], 7.0, 1e-6);
}

TEST(Ridge, ErrorsFromSumsAreThoseOfTheRows) {
  std::mt19937 rng(2);
  const int n = 60, d_in = 9, d_out = 5;
  const Matrix x = RandomMatrix(rng, n, d_in, 2.0, 3.0), y = RandomMatrix(rng, n, d_out, 1.0, -50.0);
  const RidgeAccumulator sums = Sums(x, y, n, d_in, d_out);
  ASSERT_OK_AND_ASSIGN(const RidgeSolver solver, RidgeSolver::Create(sums));
  ASSERT_OK_AND_ASSIGN(const RidgeSolution s, solver.Solve(0.1));
  const Matrix z = Times(x, s.a, n, d_in, d_out, s.b);
  const std::vector<double> errors = sums.SquaredErrors(s);
  double variance = 0;
  for (int j = 0; j < d_out; ++j) {
    double want = 0, mean = 0;
    for (int i = 0; i < n; ++i) want += std::pow(z[i * d_out + j] - y[i * d_out + j], 2);
    for (int i = 0; i < n; ++i) mean += y[i * d_out + j] / n;
    for (int i = 0; i < n; ++i) variance += std::pow(y[i * d_out + j] - mean, 2) / n;
    EXPECT_NEAR(errors[j], want, 1e-7 * want);
  }
  EXPECT_NEAR(sums.LabelVariance(0, d_out), variance, 1e-8 * variance);
}

TEST(Ridge, MergeIsAddingAllRows) {
  std::mt19937 rng(3);
  const Matrix x = RandomMatrix(rng, 40, 6), y = RandomMatrix(rng, 40, 3);
  RidgeAccumulator first = Sums(x, y, 20, 6, 3);
  RidgeAccumulator second(6, 3);
  second.Add(x.data() + 20 * 6, y.data() + 20 * 3, 20);
  first.Merge(second);
  ASSERT_OK_AND_ASSIGN(const RidgeSolver merged, RidgeSolver::Create(first));
  ASSERT_OK_AND_ASSIGN(const RidgeSolver whole, RidgeSolver::Create(Sums(x, y, 40, 6, 3)));
  ASSERT_OK_AND_ASSIGN(const RidgeSolution a, merged.Solve(0.01));
  ASSERT_OK_AND_ASSIGN(const RidgeSolution b, whole.Solve(0.01));
  EXPECT_LT(RelativeDifference(a.a, b.a), 1e-10);
}

// A ridge onto hidden states, folded through the projections, is the ridge onto K and V (design.md 2): the
// solution is linear in its labels.
TEST(Ridge, RawThenFoldIsDirectForRandomShapes) {
  std::mt19937 rng(4);
  for (int round = 0; round < 12; ++round) {
    const int anchors = 1 + static_cast<int>(rng() % 4), targets = 1 + static_cast<int>(rng() % 3);
    const int kv = 2 + static_cast<int>(rng() % 6), d = 5 + static_cast<int>(rng() % 20),
              n = 30 + static_cast<int>(rng() % 100);
    const int d_in = 2 * kv * anchors;
    const bool biased = round % 2 == 0;
    const double lambda = std::pow(10.0, -static_cast<double>(rng() % 5));
    const Matrix x = RandomMatrix(rng, n, d_in, 1.0, 0.5);
    std::vector<LayerProjections> projections;
    Matrix hidden(static_cast<std::size_t>(n) * targets * d),
        labels(static_cast<std::size_t>(n) * targets * 2 * kv);
    for (int t = 0; t < targets; ++t) {
      LayerProjections p{RandomMatrix(rng, d, kv), RandomMatrix(rng, d, kv), {}, {}};
      if (biased) p.c_k = RandomMatrix(rng, 1, kv), p.c_v = RandomMatrix(rng, 1, kv, 10.0);
      const Matrix h = RandomMatrix(rng, n, d, 1.0, -0.3);
      const Matrix k = Times(h, p.w_k, n, d, kv, p.c_k), v = Times(h, p.w_v, n, d, kv, p.c_v);
      for (int i = 0; i < n; ++i) {
        std::copy_n(&h[i * d], d, &hidden[(i * targets + t) * d]);
        std::copy_n(&k[i * kv], kv, &labels[(i * targets + t) * 2 * kv]);
        std::copy_n(&v[i * kv], kv, &labels[(i * targets + t) * 2 * kv + kv]);
      }
      projections.push_back(std::move(p));
    }
    ASSERT_OK_AND_ASSIGN(const RidgeSolver raw_solver,
                         RidgeSolver::Create(Sums(x, hidden, n, d_in, targets * d)));
    ASSERT_OK_AND_ASSIGN(const RidgeSolver direct_solver,
                         RidgeSolver::Create(Sums(x, labels, n, d_in, targets * 2 * kv)));
    ASSERT_OK_AND_ASSIGN(const RidgeSolution raw, raw_solver.Solve(lambda));
    ASSERT_OK_AND_ASSIGN(const RidgeSolution direct, direct_solver.Solve(lambda));
    ASSERT_OK_AND_ASSIGN(const RidgeSolution folded, Fold(raw, projections, d, kv));
    EXPECT_LT(RelativeDifference(folded.a, direct.a), 1e-4) << "round " << round;
    EXPECT_LT(RelativeDifference(folded.b, direct.b), 1e-4) << "round " << round;
  }
}

TEST(ChooseLambda, PrefersStrengthForNoiseAndWeaknessForStructure) {
  std::mt19937 rng(5);
  const int n = 60, d_in = 40;
  const Matrix x = RandomMatrix(rng, n, d_in), held_x = RandomMatrix(rng, n, d_in);
  const std::vector<double> grid = {1e-6, 1e-3, 1e-1, 10};
  const Matrix noise = RandomMatrix(rng, n, 2), held_noise = RandomMatrix(rng, n, 2);
  ASSERT_OK_AND_ASSIGN(const LambdaChoice strong,
                       ChooseLambda(Sums(x, noise, n, d_in, 2), Sums(held_x, held_noise, n, d_in, 2), grid));
  EXPECT_EQ(strong.lambda, 10);
  EXPECT_EQ(strong.curve.size(), 3u) << "ends after two rises";
  EXPECT_EQ(strong.curve.back().lambda, 10);
  const Matrix w = RandomMatrix(rng, d_in, 2);
  ASSERT_OK_AND_ASSIGN(const LambdaChoice weak,
                       ChooseLambda(Sums(x, Times(x, w, n, d_in, 2), n, d_in, 2),
                                    Sums(held_x, Times(held_x, w, n, d_in, 2), n, d_in, 2), grid));
  EXPECT_EQ(weak.lambda, 1e-6);
  EXPECT_LT(weak.error, 1e-8);
}

TEST(Ridge, RefusesNonsense) {
  EXPECT_FALSE(RidgeSolver::Create(RidgeAccumulator(2, 1)).ok());
  const Matrix constant = {1, 1, 1, 1}, y = {1, 2};
  EXPECT_FALSE(RidgeSolver::Create(Sums(constant, y, 2, 2, 1)).ok());
  const Matrix x = {1, 2, 3, 5};
  ASSERT_OK_AND_ASSIGN(const RidgeSolver solver, RidgeSolver::Create(Sums(x, y, 2, 2, 1)));
  EXPECT_FALSE(solver.Solve(0).ok());
  EXPECT_FALSE(solver.Solve(NAN).ok());
}

// The paper's Table III, MiB a group.
TEST(Sizes, ReproduceTableThree) {
  const GroupSpec group = PeriodFourGroups(24)[0];
  constexpr double kMiB = 1024 * 1024;
  EXPECT_NEAR(FoldedBytes(group, 128, 4) / kMiB, 2.002, 5e-4);  // Qwen2.5-0.5B
  EXPECT_NEAR(FoldedBytes(group, 256, 4) / kMiB, 8.004, 5e-4);  // Qwen2.5-1.5B and TinyLlama
  EXPECT_EQ(FoldedBytes(group, 256, 2) * 2, FoldedBytes(group, 256, 4));
  EXPECT_NEAR(RawBytes(group, 128, 896, 4) / kMiB, 7.007, 5e-4);    // Qwen2.5-0.5B
  EXPECT_NEAR(RawBytes(group, 256, 1536, 4) / kMiB, 24.012, 5e-4);  // Qwen2.5-1.5B
  EXPECT_NEAR(RawBytes(group, 256, 2048, 4) / kMiB, 32.016, 5e-4);  // TinyLlama
}

}  // namespace
}  // namespace riskkv

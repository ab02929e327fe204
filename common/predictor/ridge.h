// Streaming ridge regression with an intercept that is not penalised (design.md 2, "Ridge"), in double
// precision.
//   min over A, b of  (1/n) sum |y - A'x - b|^2 + lambda * s * |A|^2,   s = trace(C) / d_in,
// where C is the covariance of the features: lambda is relative to the mean variance of a feature.
#ifndef RISKKV_COMMON_PREDICTOR_RIDGE_H_
#define RISKKV_COMMON_PREDICTOR_RIDGE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace riskkv {

// A [d_in, d_out] row-major, b [d_out]: y ~ x A + b.
struct RidgeSolution {
  int d_in = 0;
  int d_out = 0;
  std::vector<double> a;
  std::vector<double> b;
};

// Sums over rows: memory is d_in^2 + d_in*d_out doubles, whatever the number of rows. Not thread-safe; BLAS
// runs on the calling thread (PinBlas), so sums do not depend on the number of threads.
class RidgeAccumulator {
 public:
  RidgeAccumulator(int d_in, int d_out);

  // x [rows, d_in], y [rows, d_out], row-major.
  void Add(const double* x, const double* y, int64_t rows);
  // Adds another accumulator of the same shape.
  void Merge(const RidgeAccumulator& other);

  int d_in() const { return d_in_; }
  int d_out() const { return d_out_; }
  int64_t rows() const { return rows_; }

  // The sums as bytes, for a checkpoint: views that hold until the next change. Restore takes them, concatenated, from the
  // front of *bytes; false, and nothing changed, when there are too few.
  std::vector<std::string_view> Parts() const;
  bool Restore(std::string_view* bytes);

  // Total over columns [from, to) of the variance of y.
  double LabelVariance(int from, int to) const;

  // Sum over these rows of |y_j - (x A + b)_j|^2 for each column j of the solution, which is of the labels from `from` on;
  // from the sums alone: the held-out error of a solution fitted elsewhere, without its rows.
  std::vector<double> SquaredErrors(const RidgeSolution& solution, int from = 0) const;

 private:
  friend class RidgeSolver;
  int d_in_, d_out_;
  int64_t rows_ = 0;
  std::vector<double> sx_, sy_, syy_;
  std::vector<double> xx_;  // [d_in, d_in], upper triangle of the row-major matrix
  std::vector<double> yx_;  // [d_out, d_in] = Y'X
};

// Centres the sums once; solves for any number of lambdas by Cholesky.
class RidgeSolver {
 public:
  // INVALID_ARGUMENT without rows or when no feature varies.
  static absl::StatusOr<RidgeSolver> Create(const RidgeAccumulator& sums);
  // INVALID_ARGUMENT for a lambda that is not positive and finite; INTERNAL when the matrix is not positive
  // definite (too small a lambda for the rows there are).
  absl::StatusOr<RidgeSolution> Solve(double lambda) const { return Solve(lambda, 0, d_out_); }
  // The same for the labels [from, to) alone.
  absl::StatusOr<RidgeSolution> Solve(double lambda, int from, int to) const;
  double mean_feature_variance() const { return scale_; }

 private:
  RidgeSolver() = default;
  int d_in_ = 0, d_out_ = 0;
  double scale_ = 0;
  std::vector<double> mean_x_, mean_y_;
  std::vector<double> cov_;    // [d_in, d_in], upper
  std::vector<double> cross_;  // [d_out, d_in]
};

// Held-out error of one lambda as a share of the held-out label variance.
struct LambdaPoint {
  double lambda = 0;
  double error = 0;
};
struct LambdaChoice {
  double lambda = 0;
  double error = 0;
  std::vector<LambdaPoint> curve;  // ascending in lambda
};
// The default grid: decades and half decades where the minimum has been seen to lie.
std::vector<double> DefaultLambdaGrid();
// Fits on `fit` for the lambdas of the grid (ascending), from the largest down, and scores on `held_out`; the
// smallest error wins. The search ends when the error has risen twice running, since each lambda costs a
// factorisation. Lambdas that cannot be solved are left out; INTERNAL when none can.
absl::StatusOr<LambdaChoice> ChooseLambda(const RidgeAccumulator& fit, const RidgeAccumulator& held_out,
                                          const std::vector<double>& grid);

// The same for the labels [from, to), `fit` holding the sums to fit on.
absl::StatusOr<LambdaChoice> ChooseLambda(const RidgeSolver& fit, const RidgeAccumulator& held_out,
                                          const std::vector<double>& grid, int from, int to);

// Makes OpenBLAS run on the calling thread. Process-wide.
void PinBlas();

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_RIDGE_H_

#include "common/predictor/ridge.h"

#include <cblas.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "common/base/parts.h"
#include "common/base/status.h"
#include "fmt/format.h"

// LAPACK from OpenBLAS; Debian ships no header for it without lapacke.
extern "C" {
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info);
void dpotrs_(const char* uplo, const int* n, const int* nrhs, const double* a, const int* lda, double* b,
             const int* ldb, int* info);
}

namespace riskkv {
namespace {

// The curve falls, then rises, as lambda shrinks; one rise may be noise.
constexpr int kRisesThatEndTheSearch = 2;

std::size_t Size(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace

RidgeAccumulator::RidgeAccumulator(int d_in, int d_out)
    : d_in_(d_in),
      d_out_(d_out),
      sx_(static_cast<std::size_t>(d_in)),
      sy_(static_cast<std::size_t>(d_out)),
      syy_(static_cast<std::size_t>(d_out)),
      xx_(Size(d_in, d_in)),
      yx_(Size(d_out, d_in)) {}

void RidgeAccumulator::Add(const double* x, const double* y, int64_t rows) {
  if (rows <= 0) return;
  const int n = static_cast<int>(rows);
  cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, d_in_, n, 1.0, x, d_in_, 1.0, xx_.data(), d_in_);
  cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, d_out_, d_in_, n, 1.0, y, d_out_, x, d_in_, 1.0,
              yx_.data(), d_in_);
  for (int t = 0; t < n; ++t) {
    for (int i = 0; i < d_in_; ++i) sx_[i] += x[Size(t, d_in_) + i];
    for (int j = 0; j < d_out_; ++j) {
      const double v = y[Size(t, d_out_) + j];
      sy_[j] += v;
      syy_[j] += v * v;
    }
  }
  rows_ += rows;
}

void RidgeAccumulator::Merge(const RidgeAccumulator& other) {
  auto add = [](std::vector<double>& to, const std::vector<double>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  };
  add(sx_, other.sx_);
  add(sy_, other.sy_);
  add(syy_, other.syy_);
  add(xx_, other.xx_);
  add(yx_, other.yx_);
  rows_ += other.rows_;
}

std::vector<std::string_view> RidgeAccumulator::Parts() const {
  std::vector<std::string_view> parts = {{reinterpret_cast<const char*>(&rows_), sizeof(rows_)}};
  for (const std::vector<double>* v : {&sx_, &sy_, &syy_, &xx_, &yx_})
    parts.emplace_back(reinterpret_cast<const char*>(v->data()), v->size() * sizeof(double));
  return parts;
}

bool RidgeAccumulator::Restore(std::string_view* bytes) {
  std::vector<std::span<std::byte>> parts = {std::as_writable_bytes(std::span(&rows_, 1))};
  for (std::vector<double>* v : {&sx_, &sy_, &syy_, &xx_, &yx_}) parts.push_back(std::as_writable_bytes(std::span(*v)));
  return TakeParts(parts, bytes);
}

double RidgeAccumulator::LabelVariance(int from, int to) const {
  const double n = static_cast<double>(rows_);
  double sum = 0;
  for (int j = from; j < to; ++j) sum += syy_[j] / n - (sy_[j] / n) * (sy_[j] / n);
  return sum;
}

std::vector<double> RidgeAccumulator::SquaredErrors(const RidgeSolution& s, int from) const {
  // |y - xA - b|^2 summed = syy - 2 a.(Y'X) - 2 b sy + a' XX a + 2 b a.sx + n b^2, for each column a of A.
  const int columns = s.d_out;
  std::vector<double> xxa(Size(d_in_, columns));
  cblas_dsymm(CblasRowMajor, CblasLeft, CblasUpper, d_in_, columns, 1.0, xx_.data(), d_in_, s.a.data(), columns,
              0.0, xxa.data(), columns);
  std::vector<double> errors(syy_.begin() + from, syy_.begin() + from + columns);
  const double* yx = yx_.data() + Size(from, d_in_);
  for (int i = 0; i < d_in_; ++i) {
    const double* a = s.a.data() + Size(i, columns);
    const double* q = xxa.data() + Size(i, columns);
    for (int j = 0; j < columns; ++j) {
      errors[j] += a[j] * (q[j] - 2.0 * yx[Size(j, d_in_) + i] + 2.0 * s.b[j] * sx_[i]);
    }
  }
  const double n = static_cast<double>(rows_);
  for (int j = 0; j < columns; ++j) errors[j] += s.b[j] * (n * s.b[j] - 2.0 * sy_[from + j]);
  return errors;
}

absl::StatusOr<RidgeSolver> RidgeSolver::Create(const RidgeAccumulator& sums) {
  if (sums.rows_ <= 0) return absl::InvalidArgumentError("ridge: no rows");
  RidgeSolver solver;
  const int d_in = solver.d_in_ = sums.d_in_;
  const int d_out = solver.d_out_ = sums.d_out_;
  const double n = static_cast<double>(sums.rows_);
  solver.mean_x_ = sums.sx_;
  solver.mean_y_ = sums.sy_;
  for (double& m : solver.mean_x_) m /= n;
  for (double& m : solver.mean_y_) m /= n;
  solver.cov_ = sums.xx_;
  solver.cross_ = sums.yx_;
  for (int i = 0; i < d_in; ++i) {
    for (int j = i; j < d_in; ++j) {
      double& c = solver.cov_[Size(i, d_in) + j];
      c = c / n - solver.mean_x_[i] * solver.mean_x_[j];
    }
    solver.scale_ += solver.cov_[Size(i, d_in) + i] / d_in;
  }
  for (int j = 0; j < d_out; ++j) {
    for (int i = 0; i < d_in; ++i) {
      double& c = solver.cross_[Size(j, d_in) + i];
      c = c / n - solver.mean_y_[j] * solver.mean_x_[i];
    }
  }
  if (!(solver.scale_ > 0) || !std::isfinite(solver.scale_)) {
    return absl::InvalidArgumentError(fmt::format("ridge: mean feature variance is {}", solver.scale_));
  }
  return solver;
}

absl::StatusOr<RidgeSolution> RidgeSolver::Solve(double lambda, int from, int to) const {
  if (!(lambda > 0) || !std::isfinite(lambda)) {
    return absl::InvalidArgumentError(fmt::format("ridge: lambda {} is not positive", lambda));
  }
  std::vector<double> factor = cov_;
  for (int i = 0; i < d_in_; ++i) factor[Size(i, d_in_) + i] += lambda * scale_;
  const int columns = to - from;
  // [columns, d_in]: column-major [d_in, columns], as LAPACK wants it.
  std::vector<double> at(cross_.begin() + static_cast<std::ptrdiff_t>(Size(from, d_in_)),
                         cross_.begin() + static_cast<std::ptrdiff_t>(Size(to, d_in_)));
  // The row-major upper triangle is LAPACK's lower one.
  int info = 0;
  dpotrf_("L", &d_in_, factor.data(), &d_in_, &info);
  if (info != 0)
    return absl::InternalError(
        fmt::format("ridge: not positive definite at lambda {} (row {})", lambda, info));
  dpotrs_("L", &d_in_, &columns, factor.data(), &d_in_, at.data(), &d_in_, &info);
  if (info != 0) return absl::InternalError(fmt::format("ridge: dpotrs failed with {}", info));
  RidgeSolution s{d_in_, columns, std::vector<double>(Size(d_in_, columns)),
                  std::vector<double>(mean_y_.begin() + from, mean_y_.begin() + to)};
  for (int j = 0; j < columns; ++j) {
    for (int i = 0; i < d_in_; ++i) {
      const double a = at[Size(j, d_in_) + i];
      s.a[Size(i, columns) + j] = a;
      s.b[j] -= mean_x_[i] * a;
    }
  }
  return s;
}

std::vector<double> DefaultLambdaGrid() { return {1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1}; }

absl::StatusOr<LambdaChoice> ChooseLambda(const RidgeAccumulator& fit, const RidgeAccumulator& held_out,
                                          const std::vector<double>& grid) {
  ASSIGN_OR_RETURN(const RidgeSolver solver, RidgeSolver::Create(fit));
  return ChooseLambda(solver, held_out, grid, 0, fit.d_out());
}

absl::StatusOr<LambdaChoice> ChooseLambda(const RidgeSolver& fit, const RidgeAccumulator& held_out,
                                          const std::vector<double>& grid, int from, int to) {
  if (held_out.rows() <= 0) return absl::InvalidArgumentError("ridge: no held-out rows to choose lambda on");
  const double total = held_out.LabelVariance(from, to) * static_cast<double>(held_out.rows());
  LambdaChoice choice;
  choice.error = std::numeric_limits<double>::infinity();
  int rises = 0;
  for (std::size_t i = grid.size(); i-- > 0 && rises < kRisesThatEndTheSearch;) {
    const auto solution = fit.Solve(grid[i], from, to);
    if (!solution.ok()) continue;
    double error = 0;
    for (double e : held_out.SquaredErrors(*solution, from)) error += e;
    error = total > 0 ? error / total : error;
    choice.curve.insert(choice.curve.begin(), {grid[i], error});
    rises = error < choice.error ? 0 : rises + 1;
    if (rises > 0) continue;
    choice.error = error;
    choice.lambda = grid[i];
  }
  if (choice.lambda <= 0) return absl::InternalError("ridge: no lambda of the grid can be solved");
  return choice;
}

void PinBlas() { openblas_set_num_threads(1); }

}  // namespace riskkv

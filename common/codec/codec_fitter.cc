#include "common/codec/codec_fitter.h"

#include <cblas.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <thread>

#include "common/base/parts.h"
#include "common/base/status.h"
#include "common/predictor/ridge.h"
#include "fmt/format.h"

// LAPACK from OpenBLAS; Debian ships no header for it without lapacke.
extern "C" {
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info);
void dpotrs_(const char* uplo, const int* n, const int* nrhs, const double* a, const int* lda, double* b,
             const int* ldb, int* info);
void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda, double* w, double* work,
             const int* lwork, int* iwork, const int* liwork, int* info);
}

namespace riskkv {
namespace {

// A coordinate of less variance never gets a level but zero, and its class is the lowest.
constexpr double kLeastVariance = 1e-8;

using Matrix = std::vector<double>;  // row-major

void EachOf(std::size_t n, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  auto loop = [&] {
    for (std::size_t i = next++; i < n; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads && static_cast<std::size_t>(t) < n; ++t) others.emplace_back(loop);
  loop();
  for (std::thread& t : others) t.join();
}

// [to - from, width], the unit's planes side by side.
Matrix UnitRows(const PreRopeBlock& block, const CodedUnit& unit, int64_t from, int64_t to) {
  const std::size_t kv = static_cast<std::size_t>(block.kv), width = kv * unit.planes.size();
  Matrix out(static_cast<std::size_t>(to - from) * width);
  for (std::size_t i = 0; i < unit.planes.size(); ++i) {
    const float* rows = block.rows(unit.planes[i].layer, unit.planes[i].part) +
                        static_cast<std::size_t>(from - block.range.begin) * kv;
    for (std::size_t t = 0; t < static_cast<std::size_t>(to - from); ++t)
      std::copy_n(rows + t * kv, kv, out.data() + t * width + i * kv);
  }
  return out;
}

// x (symmetric, positive definite) overwritten; y [n, columns] becomes x^-1 y.
absl::Status SolveSymmetric(Matrix& x, int n, Matrix& y, int columns) {
  Matrix yt(y.size());
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < columns; ++j) yt[static_cast<std::size_t>(j) * n + i] = y[static_cast<std::size_t>(i) * columns + j];
  }
  int info = 0;
  dpotrf_("L", &n, x.data(), &n, &info);
  if (info != 0) return absl::InternalError(fmt::format("not positive definite (row {})", info));
  dpotrs_("L", &n, &columns, x.data(), &n, yt.data(), &n, &info);
  if (info != 0) return absl::InternalError(fmt::format("dpotrs failed with {}", info));
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < columns; ++j) y[static_cast<std::size_t>(i) * columns + j] = yt[static_cast<std::size_t>(j) * n + i];
  }
  return absl::OkStatus();
}

// Eigenvectors as columns and eigenvalues, largest first.
absl::Status Diagonalise(Matrix m, int n, std::vector<float>* rotation, std::vector<float>* variance) {
  std::vector<double> values(static_cast<std::size_t>(n));
  double work_size = 0;
  int iwork_size = 0, info = 0;
  const int query = -1;
  dsyevd_("V", "L", &n, m.data(), &n, values.data(), &work_size, &query, &iwork_size, &query, &info);
  std::vector<double> work(static_cast<std::size_t>(work_size));
  std::vector<int> iwork(static_cast<std::size_t>(iwork_size));
  const int lwork = static_cast<int>(work.size()), liwork = static_cast<int>(iwork.size());
  dsyevd_("V", "L", &n, m.data(), &n, values.data(), work.data(), &lwork, iwork.data(), &liwork, &info);
  if (info != 0) return absl::InternalError(fmt::format("dsyevd failed with {}", info));
  rotation->resize(m.size());
  variance->resize(values.size());
  for (int j = 0; j < n; ++j) {
    const int from = n - 1 - j;  // LAPACK: ascending, eigenvector j in column-major column j
    const double* vector = m.data() + static_cast<std::size_t>(from) * n;
    (*variance)[j] = static_cast<float>(std::max(values[from], kLeastVariance));
    for (int i = 0; i < n; ++i) (*rotation)[static_cast<std::size_t>(i) * n + j] = static_cast<float>(vector[i]);
  }
  return absl::OkStatus();
}

// Block-diagonal rotations of the conditions, transposed, times b [from, width]: the same predictor of inputs in
// rotated coordinates.
void RotateInputs(const CodedPlan& plan, const CodedUnit& unit, int kv, const std::vector<UnitWeights>& units,
                  int width, Matrix& b) {
  std::size_t at = 0;
  for (int c : unit.conditions) {
    const int n = UnitWidth(plan[c], kv);
    const Matrix r(units[c].rotation.begin(), units[c].rotation.end());
    Matrix rotated(static_cast<std::size_t>(n) * width);
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n, width, n, 1.0, r.data(), n, b.data() + at, width, 0.0,
                rotated.data(), width);
    std::copy(rotated.begin(), rotated.end(), b.begin() + static_cast<std::ptrdiff_t>(at));
    at += rotated.size();
  }
}

}  // namespace

CodecFitter::CodecFitter(const KvLayout& layout, CodedPlan plan, int threads)
    : layout_(layout), plan_(std::move(plan)), threads_(std::max(1, threads)) {
  PinBlas();
  for (std::size_t u = 0; u < plan_.size(); ++u) {
    sums_.emplace_back(static_cast<std::size_t>(UnitWidth(plan_[u], layout_.kv())));
    std::vector<int> joint = plan_[u].conditions;
    joint.push_back(static_cast<int>(u));
    for (std::size_t i = 0; i < joint.size(); ++i) {
      for (std::size_t j = i; j < joint.size(); ++j) {
        products_[{joint[i], joint[j]}].resize(static_cast<std::size_t>(UnitWidth(plan_[joint[i]], layout_.kv())) *
                                               UnitWidth(plan_[joint[j]], layout_.kv()));
      }
    }
  }
}

void CodecFitter::Add(const PreRopeBlock& block, int64_t from, int64_t to) {
  if (to <= from) return;
  std::vector<Matrix> rows(plan_.size());
  const int n = static_cast<int>(to - from);
  EachOf(plan_.size(), threads_, [&](std::size_t u) {
    rows[u] = UnitRows(block, plan_[u], from, to);
    const std::size_t width = sums_[u].size();
    for (std::size_t i = 0; i < rows[u].size(); ++i) sums_[u][i % width] += rows[u][i];
  });
  std::vector<std::pair<Pair, Matrix*>> work;
  for (auto& [pair, sum] : products_) work.push_back({pair, &sum});
  EachOf(work.size(), threads_, [&](std::size_t i) {
    const auto& [a, b] = work[i].first;
    const int wa = static_cast<int>(sums_[a].size()), wb = static_cast<int>(sums_[b].size());
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, wa, wb, n, 1.0, rows[a].data(), wa, rows[b].data(), wb, 1.0,
                work[i].second->data(), wb);
  });
  rows_ += n;
}

std::vector<std::string_view> CodecFitter::Parts() const {
  std::vector<std::string_view> parts = {{reinterpret_cast<const char*>(&rows_), sizeof(rows_)}};
  auto add = [&parts](const Matrix& m) {
    parts.emplace_back(reinterpret_cast<const char*>(m.data()), m.size() * sizeof(double));
  };
  for (const Matrix& s : sums_) add(s);
  for (const auto& [pair, p] : products_) add(p);
  return parts;
}

bool CodecFitter::Restore(std::string_view* bytes) {
  std::vector<std::span<std::byte>> parts = {std::as_writable_bytes(std::span(&rows_, 1))};
  for (Matrix& s : sums_) parts.push_back(std::as_writable_bytes(std::span(s)));
  for (auto& [pair, p] : products_) parts.push_back(std::as_writable_bytes(std::span(p)));
  return TakeParts(parts, bytes);
}

void CodecFitter::SolveScales(const std::vector<double>& sensitivity, CodecWeights& w) const {
  const int kv = layout_.kv();
  const double n = static_cast<double>(rows_);
  w.mean.resize(2 * static_cast<std::size_t>(layout_.n_layer) * kv);
  w.scale.resize(2 * static_cast<std::size_t>(layout_.n_layer));
  for (std::size_t u = 0; u < plan_.size(); ++u) {
    const Matrix& squares = products_.at({static_cast<int>(u), static_cast<int>(u)});
    const std::size_t width = sums_[u].size();
    for (std::size_t i = 0; i < plan_[u].planes.size(); ++i) {
      const CachePlane& p = plan_[u].planes[i];
      const std::size_t plane = 2 * static_cast<std::size_t>(p.layer) + p.part;
      double variance = 0;
      for (std::size_t j = i * kv; j < (i + 1) * kv; ++j) {
        const double mean = sums_[u][j] / n;
        variance += squares[j * width + j] / n - mean * mean;
        w.mean[plane * kv + (j - i * kv)] = static_cast<float>(mean);
      }
      // A constant plane has no scale: one then, and nothing is coded but its mean.
      const double weight = sensitivity.empty() ? 1.0 : sensitivity[plane];
      w.scale[plane] = variance > 0 ? static_cast<float>(std::sqrt(variance / kv / weight)) : 1.0f;
    }
  }
}

std::vector<float> CodecFitter::Deviations() const {
  CodecWeights w;
  SolveScales({}, w);
  return w.scale;
}

Matrix CodecFitter::Covariance(int a, int b, const CodecWeights& w) const {
  const int kv = layout_.kv();
  const double n = static_cast<double>(rows_);
  Matrix c = products_.at({a, b});
  const std::size_t wa = sums_[a].size(), wb = sums_[b].size();
  auto scale = [&](int unit, std::size_t column) {
    const CachePlane& p = plan_[unit].planes[column / kv];
    return static_cast<double>(w.scale[2 * static_cast<std::size_t>(p.layer) + p.part]);
  };
  for (std::size_t i = 0; i < wa; ++i) {
    const double row = scale(a, i), mean = sums_[a][i] / n;
    for (std::size_t j = 0; j < wb; ++j)
      c[i * wb + j] = (c[i * wb + j] / n - mean * sums_[b][j] / n) / (row * scale(b, j));
  }
  return c;
}

absl::Status CodecFitter::SolveUnit(std::size_t u, double ridge, CodecWeights& w) const {
  const int width = static_cast<int>(sums_[u].size());
  const int from = ConditionWidth(plan_, plan_[u], layout_.kv());
  Matrix residual = Covariance(static_cast<int>(u), static_cast<int>(u), w);
  Matrix b;
  if (from > 0) {
    Matrix x(static_cast<std::size_t>(from) * from), y(static_cast<std::size_t>(from) * width);
    std::size_t row = 0;
    for (int a : plan_[u].conditions) {
      std::size_t column = 0;
      for (int c : plan_[u].conditions) {
        const Matrix part = a <= c ? Covariance(a, c, w) : Covariance(c, a, w);
        const std::size_t na = sums_[a].size(), nc = sums_[c].size();
        for (std::size_t i = 0; i < na; ++i) {
          for (std::size_t j = 0; j < nc; ++j)
            x[(row + i) * from + column + j] = a <= c ? part[i * nc + j] : part[j * na + i];
        }
        column += nc;
      }
      const Matrix cross = Covariance(a, static_cast<int>(u), w);
      std::copy(cross.begin(), cross.end(), y.begin() + static_cast<std::ptrdiff_t>(row * width));
      row += sums_[a].size();
    }
    for (int i = 0; i < from; ++i) x[static_cast<std::size_t>(i) * from + i] += ridge;
    b = y;
    RETURN_IF_ERROR(SolveSymmetric(x, from, b, width));
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, width, width, from, -1.0, y.data(), width, b.data(), width,
                1.0, residual.data(), width);
  }
  UnitWeights& out = w.units[u];
  RETURN_IF_ERROR(Diagonalise(std::move(residual), width, &out.rotation, &out.variance));
  if (from == 0) return absl::OkStatus();
  RotateInputs(plan_, plan_[u], layout_.kv(), w.units, width, b);
  Matrix folded(b.size());
  const Matrix rotation(out.rotation.begin(), out.rotation.end());
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, from, width, width, 1.0, b.data(), width, rotation.data(),
              width, 0.0, folded.data(), width);
  out.predictor.assign(folded.begin(), folded.end());
  return absl::OkStatus();
}

absl::StatusOr<CodecWeights> CodecFitter::Solve(double ridge, const std::vector<double>& sensitivity) const {
  const std::size_t planes = 2 * static_cast<std::size_t>(layout_.n_layer);
  const bool positive = std::all_of(sensitivity.begin(), sensitivity.end(), [](double s) { return s > 0; });
  if (!positive || (!sensitivity.empty() && sensitivity.size() != planes)) {
    return absl::InvalidArgumentError(
        fmt::format("{} sensitivities for {} planes, or one is not positive", sensitivity.size(), planes));
  }
  int widest = 0;
  for (const CodedUnit& unit : plan_) {
    widest = std::max(widest, std::max(ConditionWidth(plan_, unit, layout_.kv()), UnitWidth(unit, layout_.kv())));
  }
  if (rows_ <= widest) {
    return absl::InvalidArgumentError(
        fmt::format("{} tokens to fit transforms of {} coordinates: give more text", rows_, widest));
  }
  CodecWeights w;
  w.plan = plan_;
  w.units.resize(plan_.size());
  SolveScales(sensitivity, w);
  for (std::size_t u = 0; u < plan_.size(); ++u) {
    if (absl::Status s = SolveUnit(u, ridge, w); !s.ok()) return Annotate(s, fmt::format("coded unit {}", u));
  }
  ASSIGN_OR_RETURN(w.tables, FrequencyTables::Create(FrequencyTables::LaplaceRows()));
  return w;
}

}  // namespace riskkv

#include "common/predictor/fold.h"

#include <cblas.h>

#include "fmt/format.h"

namespace riskkv {
namespace {

// out[:, column .. column + kv) = a[:, from .. from + d) * w for `rows` rows; strides are the full widths.
void Project(const double* a, int rows, int a_width, int from, const std::vector<double>& w, int d, int kv,
             double* out, int out_width, int column) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, kv, d, 1.0, a + from, a_width, w.data(), kv,
              0.0, out + column, out_width);
}

bool Fits(const LayerProjections& p, std::size_t d, std::size_t kv) {
  auto bias = [kv](const std::vector<double>& c) { return c.empty() || c.size() == kv; };
  return p.w_k.size() == d * kv && p.w_v.size() == d * kv && bias(p.c_k) && bias(p.c_v);
}

}  // namespace

absl::StatusOr<RidgeSolution> Fold(const RidgeSolution& raw, const std::vector<LayerProjections>& targets,
                                   int d, int kv) {
  const int n = static_cast<int>(targets.size());
  if (raw.d_out != n * d) {
    return absl::InvalidArgumentError(fmt::format(
        "fold: the ridge predicts {} elements, {} targets of width {} need {}", raw.d_out, n, d, n * d));
  }
  RidgeSolution out;
  out.d_in = raw.d_in;
  out.d_out = 2 * kv * n;
  out.a.resize(static_cast<std::size_t>(out.d_in) * out.d_out);
  out.b.resize(static_cast<std::size_t>(out.d_out));
  for (int i = 0; i < n; ++i) {
    const LayerProjections& p = targets[static_cast<std::size_t>(i)];
    if (!Fits(p, static_cast<std::size_t>(d), static_cast<std::size_t>(kv))) {
      return absl::InvalidArgumentError(
          fmt::format("fold: projections of target {} are not [{}, {}]", i, d, kv));
    }
    for (int part = 0; part < 2; ++part) {
      const std::vector<double>& w = part == 0 ? p.w_k : p.w_v;
      const std::vector<double>& c = part == 0 ? p.c_k : p.c_v;
      const int column = (2 * i + part) * kv;
      Project(raw.a.data(), raw.d_in, raw.d_out, i * d, w, d, kv, out.a.data(), out.d_out, column);
      Project(raw.b.data(), 1, raw.d_out, i * d, w, d, kv, out.b.data(), out.d_out, column);
      for (std::size_t j = 0; j < c.size(); ++j) out.b[static_cast<std::size_t>(column) + j] += c[j];
    }
  }
  return out;
}

int64_t FoldedBytes(const GroupSpec& group, int kv, int element) {
  return (InputWidth(group, kv) + 1LL) * OutputWidth(group, kv) * element;
}

int64_t RawBytes(const GroupSpec& group, int kv, int d, int element) {
  return (InputWidth(group, kv) + 1LL) * static_cast<int64_t>(group.targets.size()) * d * element;
}

}  // namespace riskkv

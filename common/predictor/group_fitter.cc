#include "common/predictor/group_fitter.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <thread>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv {
namespace {

// work(0) .. work(n - 1) on up to `threads` threads, this one included.
void ParallelFor(std::size_t n, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  auto loop = [&] {
    for (std::size_t i = next++; i < n; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads && static_cast<std::size_t>(t) < n; ++t) others.emplace_back(loop);
  loop();
  for (std::thread& t : others) t.join();
}

double Sum(const std::vector<double>& v, int from, int to) {
  double sum = 0;
  for (int i = from; i < to; ++i) sum += v[static_cast<std::size_t>(i)];
  return sum;
}

// A variance no smaller than what keeps a division meaningful: a constant layer has none.
double Positive(double variance) { return std::max(variance, std::numeric_limits<double>::min()); }

GroupTensors ToTensors(const RidgeSolution& s) {
  return {std::vector<float>(s.a.begin(), s.a.end()), std::vector<float>(s.b.begin(), s.b.end())};
}

}  // namespace

GroupFitter::GroupFitter(const KvLayout& layout, std::vector<GroupSpec> groups, int threads)
    : layout_(layout), groups_(std::move(groups)), threads_(std::max(1, threads)) {
  PinBlas();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    auto it = std::find_if(sums_.begin(), sums_.end(), [&](const Sums& s) { return s.anchors == groups_[g].anchors; });
    if (it == sums_.end()) it = sums_.insert(it, Sums{groups_[g].anchors, {}, {}, {}});
    it->groups.push_back(g);
    it->columns.push_back(2 * layout_.kv() * static_cast<int>(it->targets.size()));
    it->targets.insert(it->targets.end(), groups_[g].targets.begin(), groups_[g].targets.end());
  }
  for (Sums& s : sums_) {
    const GroupSpec together{s.anchors, s.targets};
    const int d_in = InputWidth(together, layout_.kv()), d_out = OutputWidth(together, layout_.kv());
    s.fit = RidgeAccumulator(d_in, d_out);
    s.held_out = RidgeAccumulator(d_in, d_out);
  }
}

void GroupFitter::Add(const PreRopeBlock& block, int64_t from, int64_t to, bool held_out) {
  if (to <= from) return;
  ParallelFor(sums_.size(), threads_, [&](std::size_t i) {
    const std::vector<double> x = GatherColumns(block, sums_[i].anchors, from, to);
    const std::vector<double> y = GatherColumns(block, sums_[i].targets, from, to);
    (held_out ? sums_[i].held_out : sums_[i].fit).Add(x.data(), y.data(), to - from);
  });
}

std::vector<std::string_view> GroupFitter::Parts() const {
  std::vector<std::string_view> parts;
  for (const Sums& s : sums_) {
    for (const RidgeAccumulator* a : {&s.fit, &s.held_out}) {
      const std::vector<std::string_view> of = a->Parts();
      parts.insert(parts.end(), of.begin(), of.end());
    }
  }
  return parts;
}

bool GroupFitter::Restore(std::string_view* bytes) {
  for (Sums& s : sums_) {
    if (!s.fit.Restore(bytes) || !s.held_out.Restore(bytes)) return false;
  }
  return true;
}

int64_t GroupFitter::fit_rows() const { return sums_.empty() ? 0 : sums_[0].fit.rows(); }
int64_t GroupFitter::held_out_rows() const { return sums_.empty() ? 0 : sums_[0].held_out.rows(); }

absl::StatusOr<std::vector<FittedGroup>> GroupFitter::Solve(const std::vector<double>& grid) const {
  std::vector<absl::StatusOr<FittedGroup>> results(groups_.size(), absl::InternalError("not solved"));
  ParallelFor(sums_.size(), threads_, [&](std::size_t i) {
    const absl::Status status = SolveSums(sums_[i], grid, results);
    for (std::size_t g : sums_[i].groups) {
      if (!status.ok()) results[g] = status;
    }
  });
  std::vector<FittedGroup> fitted;
  for (std::size_t g = 0; g < results.size(); ++g) {
    if (!results[g].ok()) return Annotate(results[g].status(), fmt::format("group {}", g));
    fitted.push_back(*std::move(results[g]));
  }
  return fitted;
}

absl::Status GroupFitter::SolveSums(const Sums& sums, const std::vector<double>& grid,
                                    std::vector<absl::StatusOr<FittedGroup>>& results) const {
  if (sums.fit.rows() <= sums.fit.d_in()) {
    return absl::InvalidArgumentError(
        fmt::format("{} tokens to fit {} features: give more text", sums.fit.rows(), sums.fit.d_in()));
  }
  ASSIGN_OR_RETURN(const RidgeSolver fit, RidgeSolver::Create(sums.fit));
  RidgeAccumulator all_sums = sums.fit;
  all_sums.Merge(sums.held_out);
  ASSIGN_OR_RETURN(const RidgeSolver all, RidgeSolver::Create(all_sums));
  for (std::size_t i = 0; i < sums.groups.size(); ++i)
    results[sums.groups[i]] = SolveGroup(sums, i, fit, all, all_sums, grid);
  return absl::OkStatus();
}

absl::StatusOr<FittedGroup> GroupFitter::SolveGroup(const Sums& sums, std::size_t i, const RidgeSolver& fit,
                                                    const RidgeSolver& all, const RidgeAccumulator& all_sums,
                                                    const std::vector<double>& grid) const {
  const GroupSpec& spec = groups_[sums.groups[i]];
  const int from = sums.columns[i], to = from + OutputWidth(spec, layout_.kv());
  FittedGroup out;
  ASSIGN_OR_RETURN(out.lambda, ChooseLambda(fit, sums.held_out, grid, from, to));
  ASSIGN_OR_RETURN(const RidgeSolution trial, fit.Solve(out.lambda.lambda, from, to));
  const std::vector<double> errors = sums.held_out.SquaredErrors(trial, from);
  ASSIGN_OR_RETURN(const RidgeSolution last, all.Solve(out.lambda.lambda, from, to));
  out.tensors = ToTensors(last);
  out.info.spec = spec;
  out.info.lambda = out.lambda.lambda;
  out.info.held_out_error = out.lambda.error;
  const int kv = layout_.kv();
  const double rows = static_cast<double>(sums.held_out.rows());
  for (std::size_t t = 0; t < spec.targets.size(); ++t) {
    const int k = static_cast<int>(2 * t) * kv, v = k + kv;
    LayerCalibration layer;
    layer.layer = spec.targets[t];
    layer.k_variance = Positive(all_sums.LabelVariance(from + k, from + v));
    layer.v_variance = Positive(all_sums.LabelVariance(from + v, from + v + kv));
    layer.k.mean = Sum(errors, k, v) / rows / layer.k_variance;
    layer.v.mean = Sum(errors, v, v + kv) / rows / layer.v_variance;
    out.info.layers.push_back(layer);
  }
  return out;
}

}  // namespace riskkv

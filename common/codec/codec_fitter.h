// Fits the codec's transforms from exact caches, streaming: sums of products between the planes of a unit and
// those it is predicted from, and nothing else.
#ifndef RISKKV_COMMON_CODEC_CODEC_FITTER_H_
#define RISKKV_COMMON_CODEC_CODEC_FITTER_H_

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/codec/codec_weights.h"
#include "common/kv/layout.h"
#include "common/predictor/features.h"

namespace riskkv {

// Ridge of the predictors, in units of the mean variance of a feature (which is one, by the scales). A predictor's
// inputs are decoded, so they carry the quantiser's noise, about step^2 / 12 in every direction: this is that of a step
// of a quarter. Against none (1e-4) it is worth 4.5 % of the size there, and 7 % at a step of a half.
inline constexpr double kCodecRidge = 5e-3;

// Not thread-safe; works on up to `threads` products at a time, each on one thread, so that results do not
// depend on `threads`. Memory: for each unit, 8 bytes (width + condition width)^2 at most.
class CodecFitter {
 public:
  // The plan must pass CheckPlan.
  CodecFitter(const KvLayout& layout, CodedPlan plan, int threads);

  // Rows of one window's cache (all layers), token positions [from, to).
  void Add(const PreRopeBlock& block, int64_t from, int64_t to);
  int64_t rows() const { return rows_; }
  // The sums as views of memory, for a checkpoint; Restore takes them from the front of *bytes into a fitter of the same layout
  // and plan, and is false when there are too few.
  std::vector<std::string_view> Parts() const;
  bool Restore(std::string_view* bytes);

  // INVALID_ARGUMENT with fewer rows than the widest condition, naming both; INTERNAL when LAPACK fails. The
  // tables are the Laplace ones. `sensitivity` [n_layer][K|V], positive, or empty for all alike: what an error in a
  // plane costs, in units of the plane's variance. Scales are divided by its root, so that one step everywhere is finer
  // where errors cost more, as the rate-distortion bound wants it.
  absl::StatusOr<CodecWeights> Solve(double ridge = kCodecRidge, const std::vector<double>& sensitivity = {}) const;
  // Standard deviation of the elements of each plane, [n_layer][K|V].
  std::vector<float> Deviations() const;

 private:
  using Pair = std::pair<int, int>;  // units, first <= second
  // Covariance of units a and b in units of their scales, [width a, width b].
  std::vector<double> Covariance(int a, int b, const CodecWeights& weights) const;
  absl::Status SolveUnit(std::size_t u, double ridge, CodecWeights& weights) const;
  void SolveScales(const std::vector<double>& sensitivity, CodecWeights& weights) const;

  const KvLayout layout_;
  const CodedPlan plan_;
  const int threads_;
  int64_t rows_ = 0;
  std::vector<std::vector<double>> sums_;       // by unit, [width]
  std::map<Pair, std::vector<double>> products_;  // [width a, width b]
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_CODEC_CODEC_FITTER_H_

// Fits every group's folded predictor from exact caches, streaming: design.md 2, "Folding". Memory is two
// sets of normal equations for each distinct list of anchors, whatever the number of windows.
#ifndef RISKKV_COMMON_PREDICTOR_GROUP_FITTER_H_
#define RISKKV_COMMON_PREDICTOR_GROUP_FITTER_H_

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/kv/layout.h"
#include "common/predictor/features.h"
#include "common/predictor/predictor_set.h"
#include "common/predictor/profile.h"
#include "common/predictor/ridge.h"

namespace riskkv {

struct FittedGroup {
  GroupTensors tensors;  // fp32 weights
  LambdaChoice lambda;   // chosen on the held-out windows
  GroupInfo info;  // spec, lambda, held_out_error, and the variances and mean held-out errors of the targets
};

// Not thread-safe; works on up to `threads` lists of anchors at a time, each on one thread, so results do not depend on
// `threads`.
class GroupFitter {
 public:
  GroupFitter(const KvLayout& layout, std::vector<GroupSpec> groups, int threads);

  // Rows of one window's cache, token positions [from, to), to the fit or to the held-out sums.
  void Add(const PreRopeBlock& block, int64_t from, int64_t to, bool held_out);
  // The sums as bytes, for a checkpoint of a fitter of the same layout and groups (RidgeAccumulator::Parts). Restore takes
  // them from the front of *bytes; false, and the sums are of no use, when there are too few.
  std::vector<std::string_view> Parts() const;
  bool Restore(std::string_view* bytes);
  int64_t fit_rows() const;
  int64_t held_out_rows() const;

  // For each group: lambda by the held-out error of a fit on the fit windows, then a last fit with it on all
  // windows (ridge.h). X [rows, 2 kv |anchors|] and labels [rows, 2 kv |targets|] are GatherColumns of anchors and targets;
  // held_out_error = sum |y - X B - d|^2 / sum |y - mean y|^2 over the held-out rows, all columns. INVALID_ARGUMENT with fewer rows than features, naming both numbers.
  absl::StatusOr<std::vector<FittedGroup>> Solve(const std::vector<double>& grid) const;

 private:
  // Groups with the same anchors share their sums: labels of all their targets side by side.
  struct Sums {
    std::vector<int> anchors, targets;
    std::vector<std::size_t> groups;
    std::vector<int> columns;  // first label of each of `groups`
    RidgeAccumulator fit{0, 0}, held_out{0, 0};
  };
  absl::Status SolveSums(const Sums& sums, const std::vector<double>& grid,
                         std::vector<absl::StatusOr<FittedGroup>>& results) const;
  absl::StatusOr<FittedGroup> SolveGroup(const Sums& sums, std::size_t i, const RidgeSolver& fit, const RidgeSolver& all,
                                         const RidgeAccumulator& all_sums, const std::vector<double>& grid) const;

  const KvLayout layout_;
  const std::vector<GroupSpec> groups_;
  const int threads_;
  std::vector<Sums> sums_;
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_GROUP_FITTER_H_

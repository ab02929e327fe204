// The risk of omitting groups: NLL(next horizon tokens | cache with the groups rebuilt) - NLL(same | exact
// cache), teacher forced, per window (design.md 2, "Risk"). The rebuilt cache is really imported, ends exact
// as deployed.
#ifndef RISKKV_COMMON_QUALITY_RISK_H_
#define RISKKV_COMMON_QUALITY_RISK_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/predictor/predictor_set.h"
#include "common/predictor/rebuild.h"
#include "common/quality/bootstrap.h"
#include "common/quality/cell_store.h"
#include "common/quality/progress.h"
#include "common/quality/scorer.h"
#include "common/quality/windows.h"

namespace riskkv {

// Cells whose omitted layers are rebuilt: all but the first and last ones of the policy, of `cells`. May be
// empty.
TokenRange RebuiltRange(const EndsPolicy& ends, int64_t cells);

// Bytes of a cache of `cells` cells, and what a source ships of it under a profile.
int64_t FullBytes(const KvLayout& layout, int64_t cells);
int64_t SentBytes(const KvLayout& layout, const Profile& profile, int64_t cells);

// What a destination decodes from: `exact` (all layers, from position 0) with the profile's omitted layers
// rebuilt outside the ends.
absl::StatusOr<KvBlock> RebuildCache(kernels::Backend& backend, kernels::SetHandle handle,
                                     const PredictorSet& set, const Profile& profile, const KvBlock& exact);

// A profile for measuring: these groups, not gated.
Profile CandidateProfile(const PredictorSet& set, const std::vector<int>& groups, const EndsPolicy& ends);

struct WindowNll {
  int article = 0;
  double exact = 0, rebuilt = 0;  // mean nats per scored token
  double delta() const { return rebuilt - exact; }
};

struct Measurement {
  std::vector<WindowNll> windows;      // in the order of the window set
  std::vector<double> delta_by_token;  // mean over windows, for each scored token
  RiskStats stats;
};

// Measures candidates over one window set. Exact cells and NLL of a window are computed once; measurements
// are kept by profile topology. Engine, store, progress and window set must outlive it. Not thread-safe.
class RiskMeter {
 public:
  RiskMeter(Engine& engine, CellStore& store, const WindowSet& windows, std::string split,
            const BootstrapOptions& bootstrap, Progress& progress);

  // Exact cells and NLL of every window; a second call does nothing.
  absl::Status Prepare();
  absl::StatusOr<Measurement> Measure(kernels::Backend& backend, kernels::SetHandle handle,
                                      const PredictorSet& set, const Profile& profile);
  absl::StatusOr<KvBlock> ExactCells(std::size_t window) const { return store_.Get(Name(window)); }
  const WindowSet& windows() const { return windows_; }
  double exact_nll() const;  // mean over windows

 private:
  std::string Name(std::size_t window) const { return split_ + "-" + std::to_string(window); }

  WindowScorer scorer_;
  CellStore& store_;
  const WindowSet& windows_;
  const std::string split_;
  const BootstrapOptions bootstrap_;
  Progress& progress_;
  std::vector<std::vector<float>> exact_;  // by window, by token
  std::map<std::string, Measurement> measured_;
};

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_RISK_H_

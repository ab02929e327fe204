// The risk of omitting groups: NLL(next horizon tokens | cache with the groups rebuilt) - NLL(same | exact
// cache), teacher forced, per window (design.md 2, "Risk"). The rebuilt cache is really imported, ends exact
// as deployed.
#ifndef RISKKV_COMMON_QUALITY_RISK_H_
#define RISKKV_COMMON_QUALITY_RISK_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/predictor/predictor_set.h"
#include "common/predictor/rebuild.h"
#include "common/quality/bootstrap.h"
#include "common/quality/progress.h"
#include "common/quality/result_store.h"
#include "common/quality/scorer.h"
#include "common/quality/windows.h"

namespace riskkv {

// Cells whose omitted layers are rebuilt: all but the first and last ones of the policy, of `cells`. May be
// empty.
TokenRange RebuiltRange(const EndsPolicy& ends, int64_t cells);

// Bytes of a cache of `cells` cells, cells * n_layer * 2 * kv * 2, and what a source ships of it under a profile: the
// same less |RebuiltRange| * omitted layers * 2 * kv * 2.
int64_t FullBytes(const KvLayout& layout, int64_t cells);
int64_t SentBytes(const KvLayout& layout, const Profile& profile, int64_t cells);

// What a destination decodes from, [n_layer][K|V][cells][kv] in fp16: `exact` (all layers, from position 0) with the
// profile's omitted layers rebuilt outside the ends.
absl::StatusOr<KvBlock> RebuildCache(kernels::Backend& backend, kernels::SetHandle handle,
                                     const PredictorSet& set, const Profile& profile, const KvBlock& exact);

// A profile for measuring: these groups, not gated.
Profile CandidateProfile(const PredictorSet& set, const std::vector<int>& groups, const EndsPolicy& ends);

// NLL = -(1/horizon) sum over the scored tokens t of log p(token t | cache, tokens before t), nats per token.
struct WindowNll {
  int article = 0;
  double exact = 0, rebuilt = 0;  // under the exact and under the other cache
  double delta() const { return rebuilt - exact; }
};

struct Measurement {
  std::vector<WindowNll> windows;      // in the order of the window set
  std::vector<double> delta_by_token;  // mean over windows, for each scored token
  RiskStats stats;
};

// The cache a destination decodes from, given the exact one (all layers, cells from 0), both of the same cells.
using CacheFn = std::function<absl::StatusOr<KvBlock>(const KvBlock& exact)>;

// The same where it matters which window it is.
using WindowCacheFn = std::function<absl::StatusOr<KvBlock>(std::size_t window, const KvBlock& exact)>;

// Measures caches over one window set. Everything computed is kept in the store under keys that name the model, the tokens and
// the cache, and is not computed again, here or in a later process: exact cells and NLL of a window, NLL of each cache.
// Engine, store, progress and window set must outlive it. Not thread-safe.
class RiskMeter {
 public:
  // `split` stands in progress lines only.
  RiskMeter(Engine& engine, ResultStore& store, const WindowSet& windows, std::string split,
            const BootstrapOptions& bootstrap, Progress& progress);

  // Exact NLL of every window; a second call does nothing.
  absl::Status Prepare();
  // `key` must say all that `cache` depends on beside the exact cells; `label` is for progress lines.
  absl::StatusOr<Measurement> MeasureCache(const std::string& key, const std::string& label, const CacheFn& cache);
  absl::StatusOr<Measurement> MeasureWindows(const std::string& key, const std::string& label,
                                             const WindowCacheFn& cache);
  // The profile's groups rebuilt, its ends exact.
  absl::StatusOr<Measurement> Measure(kernels::Backend& backend, kernels::SetHandle handle,
                                      const PredictorSet& set, const Profile& profile);
  absl::StatusOr<KvBlock> ExactCells(std::size_t window);
  const WindowSet& windows() const { return windows_; }
  double exact_nll() const;  // mean over windows, nats per token
  // Names window, model and shape in keys.
  const std::string& window_id(std::size_t window) const { return ids_[window]; }

 private:
  absl::StatusOr<std::vector<float>> Score(std::size_t window, const std::string& key, const WindowCacheFn& cache);

  WindowScorer scorer_;
  const KvLayout layout_;
  ResultStore& store_;
  const WindowSet& windows_;
  const std::string split_;
  const BootstrapOptions bootstrap_;
  Progress& progress_;
  std::vector<std::string> ids_, history_ids_;  // by window: of the whole window, of its history alone
  std::vector<std::vector<float>> exact_;       // by window, by token
  std::map<std::string, Measurement> measured_;
};

// Digest of what an engine's numbers depend on beside the tokens: the model and the batch its prefill uses.
std::string EngineKey(const Engine& engine);
// Digest of tokens computed by that engine.
std::string TokensKey(const std::string& engine_key, std::span<const Token> tokens);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_RISK_H_

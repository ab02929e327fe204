// What a predictor set says about itself beside its weights. Plain data; JSON in profile_json.cc, format in
// common/README.md.
#ifndef RISKKV_COMMON_PREDICTOR_PROFILE_H_
#define RISKKV_COMMON_PREDICTOR_PROFILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/predictor/layout_groups.h"

namespace riskkv {

// Change of NLL in nats per token, rebuilt minus exact, over windows (paired), a window standing for a request. Intervals and
// the bound are of the mean, from the hierarchical bootstrap over articles, then windows; the quantiles are over requests.
struct RiskStats {
  double mean = 0;
  double low95 = 0, high95 = 0;  // two-sided 95 % interval of the mean
  double upper90 = 0;            // one-sided 90 % upper bound of the mean
  double worst = 0;              // largest change of one window
  int windows = 0;               // 0: not measured
  int articles = 0;
  double p50 = 0, p90 = 0, p99 = 0;  // over single windows
};

// Tokens that are shipped for all layers, whatever the profile: the first `first` and the newest `last` of a
// cache.
struct EndsPolicy {
  int first = 4;
  int last = 128;
  bool operator==(const EndsPolicy&) const = default;
};

enum class TransferMode { kFull, kRisk };
const char* TransferModeName(TransferMode mode);  // "FULL", "RISK"

// A named topology with the budget it was accepted for.
struct Profile {
  std::string name;  // "exact", "risk-0.005", "ungated-safest"
  TransferMode mode = TransferMode::kFull;
  double epsilon = 0;               // budget in nats per token; 0 for exact and ungated ones
  std::vector<int> groups;          // ascending indices into PredictorSet::groups()
  std::vector<int> omitted_layers;  // ascending: the targets of those groups
  EndsPolicy ends;
  bool gated = true;           // false: no gate passed, for demonstrations only
  std::string gate = "exact";  // "exact", "mean", "upper90", "stable-split", "none"
  RiskStats select;            // on the selection windows
  RiskStats confirm;           // on the confirmation windows; confirm.windows is 0 without --confirm
};

// Relative squared error of one predicted part over held-out tokens: |predicted - exact|^2 / variance of the
// part.
struct ErrorStats {
  double mean = 0;
  double p50 = 0, p90 = 0, p99 = 0;  // over single tokens
};

// What calibration knows about one omitted layer. Variances are totals over the kv elements (sum of the
// variances of the elements) on the fit tokens, keys before RoPE; a probe's error is relative to them.
struct LayerCalibration {
  int layer = 0;
  double k_variance = 1, v_variance = 1;
  ErrorStats k, v;
  double k_bound = 0,
         v_bound = 0;  // a probe whose mean error is above is refused; 0: never recorded, always refused
};

struct GroupInfo {
  GroupSpec spec;
  double lambda = 0;          // ridge strength, relative to the mean variance of the features
  double held_out_error = 0;  // squared error / variance on the held-out windows, K and V of all targets
  RiskStats risk;             // this group alone rebuilt, on the selection windows
  std::vector<LayerCalibration> layers;  // one for each target, in order
};

// How probes are taken, and what their bounds promise.
struct ProbePolicy {
  int tokens_per_block = 2;  // exact rows shipped for each block
  int block_tokens = 128;
  double false_alarm = 0.01;  // chance that an honest window's history is refused, before `margin`
  double margin = 1;          // the recorded bounds are the quantile times this
};

// One evaluated candidate of the path.
struct PathPoint {
  std::vector<int> groups;  // ascending
  RiskStats select;
  RiskStats confirm;
};

// Everything about the set that is not a weight.
struct SetInfo {
  std::string layout = "period-four";
  std::vector<GroupInfo> groups;
  std::map<std::string, Profile> profiles;  // always holds "exact"
  std::vector<PathPoint> path;              // joint prefixes, in order of risk / bytes saved
  ProbePolicy probe;
  std::string calibration = "{}";  // provenance as JSON text: splits with digests, windows, seed, versions
};

// The targets of `groups`, ascending.
std::vector<int> TargetsOf(const std::vector<GroupInfo>& groups, const std::vector<int>& selected);
// The profile that ships everything: mode FULL, nothing omitted.
Profile ExactProfile(const EndsPolicy& ends);

}  // namespace riskkv

#endif  // RISKKV_COMMON_PREDICTOR_PROFILE_H_

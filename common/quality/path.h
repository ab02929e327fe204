// Algorithm 1: single-group risks, the order by risk per byte saved, the joint path, and the gates (design.md
// 2).
#ifndef RISKKV_COMMON_QUALITY_PATH_H_
#define RISKKV_COMMON_QUALITY_PATH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/predictor/profile.h"

namespace riskkv {

struct Candidate {
  std::vector<int> groups;  // ascending
  int64_t bytes_saved = 0;  // of a token's cache
  RiskStats select;
};

// Measures a set of groups rebuilt jointly on the selection windows.
using EvaluateFn = std::function<absl::StatusOr<RiskStats>(const std::vector<int>& groups)>;

struct RiskPath {
  std::vector<Candidate> singles;  // by group
  std::vector<int> order;          // groups by risk / bytes saved, ascending
  std::vector<Candidate>
      prefixes;  // of `order`: 1, 2, .. G groups; the first is the single one, not measured again
};

// Groups by risk[g] / bytes_saved[g] (nats per token and byte), ascending; ties by number. Both of one length, bytes
// positive.
std::vector<int> OrderByRisk(const std::vector<double>& risk, const std::vector<int64_t>& bytes_saved);

// 2G evaluations, of which the first prefix is known from its single group. bytes_saved[g]: of a token's
// cache by group g.
absl::StatusOr<RiskPath> FollowPath(const std::vector<int64_t>& bytes_saved, const EvaluateFn& evaluate);

enum class Gate { kMean, kUpper90, kStableSplit };
const char* GateName(Gate gate);  // "mean", "upper90", "stable-split"

// A bound from fewer windows than this says nothing, whatever it is.
inline constexpr int kFewestGateWindows = 6;

// Mean: mean <= epsilon. Upper-90: upper90 <= epsilon. Stable-split: Upper-90 on both (`confirm` required).
// Nothing is admissible on fewer than kFewestGateWindows windows (of either split).
bool Admissible(Gate gate, double epsilon, const RiskStats& select, const RiskStats* confirm);

// The admissible candidate that saves most bytes, as an index into `candidates`; -1 when there is none.
// `confirm` measures a candidate on the confirmation windows and is called, from most bytes saved down, only
// for those that pass Upper-90 on the selection ones, until one passes; null for the other gates.
absl::StatusOr<int> SelectCandidate(Gate gate, double epsilon, const std::vector<Candidate>& candidates,
                                    const EvaluateFn& confirm);

// "risk-0.005" for 0.005.
std::string ProfileName(double epsilon);

}  // namespace riskkv

#endif  // RISKKV_COMMON_QUALITY_PATH_H_

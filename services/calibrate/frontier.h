// Every way to send a cache that a chart of bytes against change of perplexity shows, on the same windows.
#ifndef RISKKV_SERVICES_CALIBRATE_FRONTIER_H_
#define RISKKV_SERVICES_CALIBRATE_FRONTIER_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/quality/path.h"
#include "common/quality/rivals.h"
#include "services/calibrate/result.h"

namespace riskkv::calibrate {

// A set's codec with the profiles to measure: its own, then one step everywhere, coarse to fine.
struct CodedSource {
  std::unique_ptr<BlockCodec> codec;
  std::string digest;  // of the set
  std::vector<CodedProfile> profiles;
};
// NOT_FOUND (PREDICTOR_MISSING) when the set has no codec.
absl::StatusOr<CodedSource> OpenCodedSource(const PredictorSet& set);

struct FrontierTask {
  RiskMeter& meter;
  ResultStore& store;
  PolicyContext context;
  std::vector<std::vector<int>> path;    // topologies of the omission alone; empty: a set without groups
  std::set<std::vector<int>> landmarks;  // those that are combined with int8 anchors
  const CodedSource* coded = nullptr;    // null: no codec
};

// Omission along the path; int8; int4 in groups of 32 and 64, int3, int2; omission with int8 and int4 anchors; with a
// codec its profiles, and int4 and omission again with the codec's ends, so that they are compared like for like.
// Nothing returned decodes.
absl::StatusOr<std::vector<MeasuredPolicy>> MeasureFrontier(const FrontierTask& task);

// Scorings of a window that MeasureFrontier takes beyond the path.
int FrontierScorings(const CodedSource* coded);

// The topologies of interest along a path: what the budgets got, half of the groups and all of them.
std::set<std::vector<int>> Landmarks(const std::vector<std::vector<int>>& prefixes,
                                     const std::vector<std::vector<int>>& admitted);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_FRONTIER_H_

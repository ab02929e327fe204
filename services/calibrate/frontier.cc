#include "services/calibrate/frontier.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/codec/codec_section.h"
#include "fmt/format.h"

namespace riskkv::calibrate {
namespace {

// One step everywhere, across what budgets admit.
constexpr float kChartSteps[] = {0.8f, 0.5f, 0.35f, 0.25f, 0.15f};
// Of the rivals without omission, the ones with the codec's ends and the anchors in fewer bits.
constexpr LowBits kRivalBits[] = {{4, 64}, {4, 32}, {3, 64}, {2, 32}};
constexpr LowBits kAnchorBits{4, 32};
constexpr LowBits kLikeForLikeBits{4, 64};

bool IsUniform(const CodedProfile& p, float step) {
  return std::all_of(p.steps.begin(), p.steps.end(), [step](float s) { return s == step; });
}

}  // namespace

absl::StatusOr<CodedSource> OpenCodedSource(const PredictorSet& set) {
  CodedSource source;
  ASSIGN_OR_RETURN(source.codec, OpenCodec(set));
  ASSIGN_OR_RETURN(source.profiles, ReadCodedProfiles(set));
  source.digest = set.digest();
  const std::vector<CodedProfile> own = source.profiles;
  for (float step : kChartSteps) {
    if (std::any_of(own.begin(), own.end(), [step](const CodedProfile& p) { return IsUniform(p, step); })) continue;
    CodedProfile p;
    p.name = fmt::format("step {}", step);
    p.steps.assign(source.codec->weights().units.size(), step);
    if (!own.empty()) p.ends = own.front().ends, p.int8_ends = own.front().int8_ends;
    source.profiles.push_back(std::move(p));
  }
  return source;
}

std::set<std::vector<int>> Landmarks(const std::vector<std::vector<int>>& prefixes,
                                     const std::vector<std::vector<int>>& admitted) {
  std::set<std::vector<int>> marks;
  if (prefixes.empty()) return marks;
  for (const std::vector<int>& groups : admitted) {
    if (!groups.empty()) marks.insert(groups);
  }
  marks.insert(prefixes[(prefixes.size() - 1) / 2]);
  marks.insert(prefixes.back());
  return marks;
}

int FrontierScorings(const CodedSource* coded) {
  const int coded_points = coded == nullptr ? 0 : static_cast<int>(coded->profiles.size()) + 4;
  return 9 + coded_points;
}

absl::StatusOr<std::vector<MeasuredPolicy>> MeasureFrontier(const FrontierTask& task) {
  std::vector<CachePolicy> policies;
  for (const std::vector<int>& groups : task.path) policies.push_back(OmissionPolicy(task.context, groups));
  policies.push_back(Int8Policy(task.context));
  for (const LowBits& bits : kRivalBits) policies.push_back(LowBitsPolicy(task.context, bits));
  for (const std::vector<int>& groups : task.landmarks) policies.push_back(Int8OmissionPolicy(task.context, groups));
  if (!task.path.empty()) policies.push_back(LowBitsOmissionPolicy(task.context, task.path.back(), kAnchorBits));
  PolicyContext like = task.context;
  if (task.coded != nullptr) {
    const CodedProfile& first = task.coded->profiles.front();
    like.ends = {first.ends, first.int8_ends};
    policies.push_back(LowBitsPolicy(like, kLikeForLikeBits));
    for (const std::vector<int>& groups : task.landmarks) policies.push_back(OmissionPolicy(like, groups));
  }
  std::vector<MeasuredPolicy> out;
  for (CachePolicy& policy : policies) {
    ASSIGN_OR_RETURN(out.emplace_back(), MeasurePolicy(task.meter, std::move(policy)));
  }
  if (task.coded != nullptr) {
    for (const CodedProfile& p : task.coded->profiles) {
      ASSIGN_OR_RETURN(out.emplace_back(),
                       MeasureCodedPolicy(task.meter, task.store, *task.coded->codec, task.coded->digest, p));
    }
  }
  // They point at what ends with this run.
  for (MeasuredPolicy& m : out) m.policy.decode = nullptr;
  return out;
}

}  // namespace riskkv::calibrate

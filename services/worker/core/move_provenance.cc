#include "services/worker/core/move_provenance.h"

#include <algorithm>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::worker {
namespace {

bool SameOrigin(const Provenance& a, const Provenance& b) { return a.predictor_set == b.predictor_set && a.profile == b.profile; }

}  // namespace

TokenRanges RebuiltRanges(const std::vector<Provenance>& provenance) {
  TokenRanges ranges;
  for (const Provenance& p : provenance) ranges.Add(p.range);
  return ranges;
}

absl::Status CheckProvenance(const std::vector<Provenance>& provenance, int64_t n) {
  int64_t last = 0;
  for (const Provenance& p : provenance) {
    if (p.range.begin < last || p.range.empty() || p.range.end > n || p.predictor_set.empty() || p.profile.empty()) {
      return MakeError(absl::StatusCode::kInvalidArgument, "BAD_RANGE",
                       fmt::format("provenance [{}, {}) of set '{}' profile '{}' within [{}, {})", p.range.begin, p.range.end,
                                   p.predictor_set, p.profile, last, n));
    }
    last = p.range.end;
  }
  return absl::OkStatus();
}

absl::Status CheckSameProvenance(const std::vector<Provenance>& provenance, const std::string& predictor_set,
                                 const std::string& profile) {
  for (const Provenance& p : provenance) {
    if (p.predictor_set == predictor_set && p.profile == profile) continue;
    return MakeError(absl::StatusCode::kFailedPrecondition, "STATE_NOT_TRANSFERABLE",
                     fmt::format("cells [{}, {}) were rebuilt with set {} profile {}; a move with set {} profile {} would add a second "
                                 "loss: move it FULL",
                                 p.range.begin, p.range.end, p.predictor_set, p.profile, predictor_set, profile));
  }
  return absl::OkStatus();
}

std::vector<Provenance> AddProvenance(const std::vector<Provenance>& old, const Provenance& added) {
  std::vector<Provenance> parts;
  for (const Provenance& p : old) {
    if (p.range.begin < added.range.begin) parts.push_back({{p.range.begin, std::min(p.range.end, added.range.begin)}, p.predictor_set, p.profile});
    if (p.range.end > added.range.end) parts.push_back({{std::max(p.range.begin, added.range.end), p.range.end}, p.predictor_set, p.profile});
  }
  if (!added.range.empty()) parts.push_back(added);
  std::sort(parts.begin(), parts.end(), [](const Provenance& a, const Provenance& b) { return a.range.begin < b.range.begin; });
  std::vector<Provenance> joined;
  for (const Provenance& p : parts) {
    if (p.range.empty()) continue;
    if (!joined.empty() && joined.back().range.end == p.range.begin && SameOrigin(joined.back(), p)) {
      joined.back().range.end = p.range.end;
    } else {
      joined.push_back(p);
    }
  }
  return joined;
}

std::vector<Provenance> ClipProvenance(const std::vector<Provenance>& provenance, TokenRange range) {
  std::vector<Provenance> out;
  for (const Provenance& p : provenance) {
    const TokenRange part{std::max(p.range.begin, range.begin), std::min(p.range.end, range.end)};
    if (!part.empty()) out.push_back({part, p.predictor_set, p.profile});
  }
  return out;
}

}  // namespace riskkv::worker

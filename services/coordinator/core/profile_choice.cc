#include "services/coordinator/core/profile_choice.h"

#include <map>
#include <utility>

#include "common/base/status.h"
#include "fmt/format.h"

namespace riskkv::coordinator {
namespace {

std::string Short(const std::string& digest) { return digest.substr(0, 12); }

// Sets by digest over all workers, with who holds them.
std::map<std::string, ProfileChoice> Candidates(const WorkerInfo& source, const WorkerInfo& destination,
                                                const std::vector<WorkerInfo>& workers) {
  std::string fingerprint = FingerprintDigest(source.fingerprint);
  std::map<std::string, ProfileChoice> result;
  for (const WorkerInfo& worker : workers) {
    for (const SetInfo& set : worker.sets) {
      if (FingerprintDigest(set.fingerprint) != fingerprint) continue;
      ProfileChoice& choice = result[set.digest];
      choice.set = set;
      choice.holders.push_back(worker.name.address);
    }
  }
  for (auto& [digest, choice] : result) {
    choice.source_holds = source.Holds(digest);
    choice.destination_holds = destination.Holds(digest);
  }
  return result;
}

// What the request's cache was rebuilt with before: a second lossy move keeps it.
std::optional<ProvenanceInfo> Rebuilt(const std::vector<ProvenanceInfo>& provenance) {
  for (const ProvenanceInfo& p : provenance) {
    if (!p.predictor_set.empty()) return p;
  }
  return std::nullopt;
}

absl::StatusOr<ProfileWish> KeepProvenance(ProfileWish wish, const std::vector<ProvenanceInfo>& provenance) {
  auto kept = Rebuilt(provenance);
  if (!kept) return wish;
  if ((!wish.predictor_set.empty() && wish.predictor_set != kept->predictor_set) ||
      (!wish.profile.empty() && wish.profile != kept->profile)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "PREDICTOR_STALE",
                     fmt::format("the request was rebuilt with profile {} of set {}: a further lossy move keeps it", kept->profile,
                                 Short(kept->predictor_set)));
  }
  wish.predictor_set = kept->predictor_set;
  wish.profile = kept->profile;
  wish.allow_ungated = true;  // it was allowed when it was rebuilt; another profile would lose more
  return wish;
}

// Gated before ungated, then what omits most or sends least, then what need not be fetched, then the smaller risk.
bool Better(const ProfileChoice& a, const ProfileChoice& b) {
  if (a.profile.gated != b.profile.gated) return a.profile.gated;
  if (a.profile.omitted_layers.size() != b.profile.omitted_layers.size()) {
    return a.profile.omitted_layers.size() > b.profile.omitted_layers.size();
  }
  if (a.profile.coded_token_bytes != b.profile.coded_token_bytes) return a.profile.coded_token_bytes < b.profile.coded_token_bytes;
  int held_a = a.source_holds + a.destination_holds, held_b = b.source_holds + b.destination_holds;
  if (held_a != held_b) return held_a > held_b;
  return a.profile.mean < b.profile.mean;
}

absl::Status NothingFits(const ProfileWish& wish, bool saw_name) {
  if (saw_name) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "UNKNOWN_PROFILE",
                     fmt::format("profile {} passed no gate; allow_ungated is needed to use it", wish.profile));
  }
  if (!wish.profile.empty()) {
    return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_PROFILE",
                     fmt::format("no predictor set of this model has a {} profile {}", Name(wish.mode), wish.profile));
  }
  return MakeError(absl::StatusCode::kNotFound, "PREDICTOR_MISSING",
                   wish.mode == Mode::kCoded ? "no gated coded profile is held by any worker"
                                             : "no gated profile that omits anything is held by any worker");
}

}  // namespace

absl::StatusOr<ProfileChoice> ChooseProfile(const ProfileWish& asked, const WorkerInfo& source, const WorkerInfo& destination,
                                            const std::vector<WorkerInfo>& workers,
                                            const std::vector<ProvenanceInfo>& provenance) {
  ASSIGN_OR_RETURN(ProfileWish wish, KeepProvenance(asked, provenance));
  auto candidates = Candidates(source, destination, workers);
  if (!wish.predictor_set.empty() && candidates.count(wish.predictor_set) == 0) {
    return MakeError(absl::StatusCode::kNotFound, "PREDICTOR_MISSING",
                     fmt::format("no worker holds predictor set {} for this model", wish.predictor_set));
  }
  std::optional<ProfileChoice> best;
  bool saw_name = false;
  for (auto& [digest, candidate] : candidates) {
    if (!wish.predictor_set.empty() && digest != wish.predictor_set) continue;
    for (const ProfileInfo& profile : candidate.set.profiles) {
      if (profile.coded != (wish.mode == Mode::kCoded)) continue;
      const bool saves = profile.coded || !profile.omitted_layers.empty();
      if (wish.profile.empty() ? !saves : profile.name != wish.profile) continue;
      saw_name = saw_name || !wish.profile.empty();
      if (!profile.gated && !wish.allow_ungated) continue;
      candidate.profile = profile;
      if (!best || Better(candidate, *best)) best = candidate;
    }
  }
  if (!best) return NothingFits(wish, saw_name);
  return *std::move(best);
}

int64_t PredictorBytes(const SetInfo& set, const ProfileInfo& profile) {
  int64_t bytes = 0;
  for (int group : profile.groups) {
    if (group >= 0 && group < static_cast<int>(set.groups.size())) bytes += set.groups[group].predictor_bytes;
  }
  return bytes;
}

}  // namespace riskkv::coordinator

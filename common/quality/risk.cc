#include "common/quality/risk.h"

#include <algorithm>

#include "common/base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace riskkv {

TokenRange RebuiltRange(const EndsPolicy& ends, int64_t cells) {
  const int64_t begin = std::min<int64_t>(ends.first, cells);
  return {begin, std::max(begin, cells - ends.last)};
}

int64_t FullBytes(const KvLayout& layout, int64_t cells) { return layout.bytes_per_token() * cells; }

int64_t SentBytes(const KvLayout& layout, const Profile& profile, int64_t cells) {
  const int64_t omitted =
      layout.bytes_per_token_layer() * static_cast<int64_t>(profile.omitted_layers.size());
  return FullBytes(layout, cells) - omitted * RebuiltRange(profile.ends, cells).size();
}

absl::StatusOr<KvBlock> RebuildCache(kernels::Backend& backend, kernels::SetHandle handle,
                                     const PredictorSet& set, const Profile& profile, const KvBlock& exact) {
  const TokenRange range = RebuiltRange(profile.ends, exact.range.size());
  KvBlock cache = exact;
  if (range.empty() || profile.groups.empty()) return cache;
  ASSIGN_OR_RETURN(const KvBlock shipped, Slice(exact, range, ShippedLayers(set, profile)));
  ASSIGN_OR_RETURN(const KvBlock rebuilt, RebuildBlock(backend, handle, set, profile, shipped));
  const std::size_t skip = static_cast<std::size_t>(range.begin) * exact.kv;
  const std::size_t elements = static_cast<std::size_t>(range.size()) * exact.kv;
  for (int layer : profile.omitted_layers) {
    const int i = rebuilt.IndexOf(layer);
    std::copy_n(rebuilt.k(i), elements, cache.k(layer) + skip);
    std::copy_n(rebuilt.v(i), elements, cache.v(layer) + skip);
  }
  return cache;
}

Profile CandidateProfile(const PredictorSet& set, const std::vector<int>& groups, const EndsPolicy& ends) {
  Profile profile;
  profile.name = fmt::format("candidate({})", fmt::join(groups, "+"));
  profile.mode = groups.empty() ? TransferMode::kFull : TransferMode::kRisk;
  profile.groups = groups;
  profile.omitted_layers = TargetsOf(set.groups(), groups);
  profile.ends = ends;
  profile.gated = false;
  profile.gate = "none";
  return profile;
}

RiskMeter::RiskMeter(Engine& engine, CellStore& store, const WindowSet& windows, std::string split,
                     const BootstrapOptions& bootstrap, Progress& progress)
    : scorer_(engine),
      store_(store),
      windows_(windows),
      split_(std::move(split)),
      bootstrap_(bootstrap),
      progress_(progress) {}

absl::Status RiskMeter::Prepare() {
  if (exact_.size() == windows_.windows.size()) return absl::OkStatus();
  progress_.Begin(fmt::format("{}: exact", split_),
                  static_cast<int>(windows_.windows.size() - exact_.size()));
  const std::size_t cells = static_cast<std::size_t>(WindowScorer::HistoryCells(windows_.shape));
  for (std::size_t i = exact_.size(); i < windows_.windows.size(); ++i) {
    RETURN_IF_ERROR(progress_.Check());
    const Window& window = windows_.windows[i];
    ASSIGN_OR_RETURN(const KvBlock exact,
                     scorer_.Prefill(std::span<const Token>(window.tokens).first(cells)));
    RETURN_IF_ERROR(store_.Put(Name(i), exact));
    ASSIGN_OR_RETURN(std::vector<float> nll, scorer_.Score(exact, window, windows_.shape));
    exact_.push_back(std::move(nll));
    progress_.Step();
  }
  return absl::OkStatus();
}

double RiskMeter::exact_nll() const {
  double sum = 0;
  for (const auto& nll : exact_) sum += Mean(nll);
  return exact_.empty() ? 0 : sum / static_cast<double>(exact_.size());
}

absl::StatusOr<Measurement> RiskMeter::Measure(kernels::Backend& backend, kernels::SetHandle handle,
                                               const PredictorSet& set, const Profile& profile) {
  RETURN_IF_ERROR(Prepare());
  const std::string key = fmt::format("{} {} {}/{}", set.digest(), fmt::join(profile.groups, "+"),
                                      profile.ends.first, profile.ends.last);
  if (auto it = measured_.find(key); it != measured_.end()) return it->second;
  progress_.Begin(fmt::format("{}: groups {}", split_, fmt::join(profile.groups, "+")),
                  static_cast<int>(windows_.windows.size()));
  Measurement m;
  m.delta_by_token.assign(static_cast<std::size_t>(windows_.shape.horizon), 0.0);
  std::vector<PairedDelta> deltas;
  for (std::size_t i = 0; i < windows_.windows.size(); ++i) {
    RETURN_IF_ERROR(progress_.Check());
    ASSIGN_OR_RETURN(const KvBlock exact, ExactCells(i));
    ASSIGN_OR_RETURN(const KvBlock cache, RebuildCache(backend, handle, set, profile, exact));
    ASSIGN_OR_RETURN(const std::vector<float> nll, scorer_.Score(cache, windows_.windows[i], windows_.shape));
    m.windows.push_back({windows_.windows[i].article, Mean(exact_[i]), Mean(nll)});
    deltas.push_back({m.windows.back().article, m.windows.back().delta()});
    for (std::size_t t = 0; t < nll.size(); ++t) {
      m.delta_by_token[t] +=
          (static_cast<double>(nll[t]) - exact_[i][t]) / static_cast<double>(windows_.windows.size());
    }
    progress_.Step();
  }
  m.stats = Summarise(deltas, bootstrap_);
  return measured_.emplace(key, std::move(m)).first->second;
}

}  // namespace riskkv

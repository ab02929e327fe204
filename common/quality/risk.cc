#include "common/quality/risk.h"

#include <algorithm>

#include "common/base/digest.h"
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

std::string EngineKey(const Engine& engine) {
  return fmt::format("{} batch {}", FingerprintDigest(engine.facts().fingerprint), engine.limits().max_batch);
}

std::string TokensKey(const std::string& engine_key, std::span<const Token> tokens) {
  Sha256 hash;
  hash.Update(engine_key);
  hash.Update(tokens.data(), tokens.size_bytes());
  return hash.HexDigest();
}

RiskMeter::RiskMeter(Engine& engine, ResultStore& store, const WindowSet& windows, std::string split,
                     const BootstrapOptions& bootstrap, Progress& progress)
    : scorer_(engine),
      layout_(engine.facts().fingerprint.layout),
      store_(store),
      windows_(windows),
      split_(std::move(split)),
      bootstrap_(bootstrap),
      progress_(progress) {
  const std::string engine_key = EngineKey(engine);
  const std::size_t cells = static_cast<std::size_t>(WindowScorer::HistoryCells(windows_.shape));
  for (const Window& w : windows_.windows) {
    const std::span<const Token> tokens(w.tokens);
    history_ids_.push_back(TokensKey(engine_key, tokens.first(std::min(cells, tokens.size()))));
    ids_.push_back(fmt::format("{} {}+{}", TokensKey(engine_key, tokens), windows_.shape.history, windows_.shape.horizon));
  }
}

absl::StatusOr<KvBlock> RiskMeter::ExactCells(std::size_t window) {
  const std::string key = ResultKey("cells", history_ids_[window]);
  absl::StatusOr<KvBlock> kept = GetCells(store_, key, layout_);
  const int64_t cells = WindowScorer::HistoryCells(windows_.shape);
  if (kept.ok() && kept->range.size() == cells) return kept;
  ASSIGN_OR_RETURN(const KvBlock exact, scorer_.Prefill(std::span<const Token>(windows_.windows[window].tokens)
                                                            .first(static_cast<std::size_t>(cells))));
  RETURN_IF_ERROR(PutCells(store_, key, layout_, exact));
  return exact;
}

// One window's NLL under a cache: kept, or scored and kept.
absl::StatusOr<std::vector<float>> RiskMeter::Score(std::size_t window, const std::string& key,
                                                    const WindowCacheFn& cache) {
  RETURN_IF_ERROR(progress_.Check());
  const std::string name = ResultKey("nll", fmt::format("{} | {}", ids_[window], key));
  const std::size_t horizon = static_cast<std::size_t>(windows_.shape.horizon);
  if (auto kept = GetFloats(store_, name, horizon); kept.ok()) {
    progress_.Skip();
    return kept;
  }
  ASSIGN_OR_RETURN(const KvBlock exact, ExactCells(window));
  ASSIGN_OR_RETURN(const KvBlock block, cache(window, exact));
  ASSIGN_OR_RETURN(std::vector<float> nll, scorer_.Score(block, windows_.windows[window], windows_.shape));
  RETURN_IF_ERROR(PutFloats(store_, name, nll));
  progress_.Step();
  return nll;
}

absl::Status RiskMeter::Prepare() {
  if (exact_.size() == windows_.windows.size()) return absl::OkStatus();
  progress_.Begin(fmt::format("{}: exact", split_), static_cast<int>(windows_.windows.size() - exact_.size()));
  const WindowCacheFn same = [](std::size_t, const KvBlock& exact) -> absl::StatusOr<KvBlock> { return exact; };
  for (std::size_t i = exact_.size(); i < windows_.windows.size(); ++i) {
    ASSIGN_OR_RETURN(std::vector<float> nll, Score(i, "exact", same));
    exact_.push_back(std::move(nll));
  }
  return absl::OkStatus();
}

double RiskMeter::exact_nll() const {
  double sum = 0;
  for (const auto& nll : exact_) sum += Mean(nll);
  return exact_.empty() ? 0 : sum / static_cast<double>(exact_.size());
}

absl::StatusOr<Measurement> RiskMeter::MeasureCache(const std::string& key, const std::string& label,
                                                    const CacheFn& cache) {
  return MeasureWindows(key, label, [&cache](std::size_t, const KvBlock& exact) { return cache(exact); });
}

absl::StatusOr<Measurement> RiskMeter::MeasureWindows(const std::string& key, const std::string& label,
                                                      const WindowCacheFn& cache) {
  RETURN_IF_ERROR(Prepare());
  if (auto it = measured_.find(key); it != measured_.end()) return it->second;
  progress_.Begin(fmt::format("{}: {}", split_, label), static_cast<int>(windows_.windows.size()));
  Measurement m;
  m.delta_by_token.assign(static_cast<std::size_t>(windows_.shape.horizon), 0.0);
  std::vector<PairedDelta> deltas;
  for (std::size_t i = 0; i < windows_.windows.size(); ++i) {
    ASSIGN_OR_RETURN(const std::vector<float> nll, Score(i, key, cache));
    m.windows.push_back({windows_.windows[i].article, Mean(exact_[i]), Mean(nll)});
    deltas.push_back({m.windows.back().article, m.windows.back().delta()});
    for (std::size_t t = 0; t < nll.size(); ++t) {
      m.delta_by_token[t] +=
          (static_cast<double>(nll[t]) - exact_[i][t]) / static_cast<double>(windows_.windows.size());
    }
  }
  m.stats = Summarise(deltas, bootstrap_);
  return measured_.emplace(key, std::move(m)).first->second;
}

absl::StatusOr<Measurement> RiskMeter::Measure(kernels::Backend& backend, kernels::SetHandle handle,
                                               const PredictorSet& set, const Profile& profile) {
  const std::string groups = fmt::format("{}", fmt::join(profile.groups, "+"));
  const std::string key =
      fmt::format("rebuild {} {} {}/{}", set.digest(), groups, profile.ends.first, profile.ends.last);
  return MeasureCache(key, "groups " + groups,
                      [&](const KvBlock& exact) { return RebuildCache(backend, handle, set, profile, exact); });
}

}  // namespace riskkv

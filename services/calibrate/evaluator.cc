#include "services/calibrate/evaluator.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/predictor/set_json.h"

namespace riskkv::calibrate {

absl::StatusOr<Evaluation> Evaluate(Engine& engine, kernels::Backend& backend, const PredictorSet& set,
                                    const TextFile& text, const EvaluateOptions& options,
                                    Progress& progress) {
  RETURN_IF_ERROR(set.CheckModel(engine.facts().fingerprint));
  const Profile* profile = &set.BestGatedProfile();
  if (!options.profile.empty()) {
    ASSIGN_OR_RETURN(profile, set.FindProfile(options.profile));
  }
  ASSIGN_OR_RETURN(const WindowSet windows,
                   CutWindows(engine, text, options.shape, options.seed, options.windows));
  ASSIGN_OR_RETURN(const std::unique_ptr<CellStore> store, CellStore::Create(options.temp_dir, set.layout()));
  ASSIGN_OR_RETURN(const std::unique_ptr<UploadedSet> uploaded, UploadedSet::Create(backend, set));
  progress.Plan(2 * static_cast<int>(windows.windows.size()));
  RiskMeter meter(engine, *store, windows, "text", {options.resamples, options.seed}, progress);
  Evaluation e;
  e.profile = profile->name;
  e.epsilon = profile->epsilon;
  e.windows_available = windows.available;
  ASSIGN_OR_RETURN(e.measurement, meter.Measure(backend, uploaded->handle(), set, *profile));
  double exact = 0, rebuilt = 0;
  for (const WindowNll& w : e.measurement.windows) {
    exact += w.exact / static_cast<double>(e.measurement.windows.size());
    rebuilt += w.rebuilt / static_cast<double>(e.measurement.windows.size());
  }
  e.perplexity_exact = std::exp(exact);
  e.perplexity_rebuilt = std::exp(rebuilt);
  const int64_t cells = WindowScorer::HistoryCells(options.shape);
  e.bytes_full = FullBytes(set.layout(), cells);
  e.bytes_sent = SentBytes(set.layout(), *profile, cells);
  return e;
}

nlohmann::json ToJson(const Evaluation& e) {
  nlohmann::json deltas = nlohmann::json::array(), articles = nlohmann::json::array();
  for (const WindowNll& w : e.measurement.windows) {
    deltas.push_back(w.delta());
    articles.push_back(w.article);
  }
  const RiskStats& s = e.measurement.stats;
  nlohmann::json j = {{"profile", e.profile},
                      {"windows", s.windows},
                      {"articles", s.articles},
                      {"windows_available", e.windows_available},
                      {"nll_delta_mean", s.mean},
                      {"nll_delta_low95", s.low95},
                      {"nll_delta_high95", s.high95},
                      {"nll_delta_upper90", s.upper90},
                      {"nll_delta_per_request", std::move(deltas)},
                      {"article_per_request", std::move(articles)},
                      {"perplexity_exact", e.perplexity_exact},
                      {"perplexity_rebuilt", e.perplexity_rebuilt},
                      {"bytes_full", e.bytes_full},
                      {"bytes_sent", e.bytes_sent}};
  if (e.epsilon > 0) {
    j["epsilon"] = e.epsilon;
    j["mean_within_epsilon"] = s.mean <= e.epsilon;
    j["upper90_within_epsilon"] = s.upper90 <= e.epsilon;
  }
  return j;
}

}  // namespace riskkv::calibrate

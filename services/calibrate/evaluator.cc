#include "services/calibrate/evaluator.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/predictor/set_json.h"
#include "common/quality/path.h"
#include "fmt/format.h"

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
  ASSIGN_OR_RETURN(const std::unique_ptr<ResultStore> store, OpenResultStore(options.work_dir, options.temp_dir));
  ASSIGN_OR_RETURN(const std::unique_ptr<UploadedSet> uploaded, UploadedSet::Create(backend, set));
  progress.Plan(2 * static_cast<int>(windows.windows.size()));
  RiskMeter meter(engine, *store, windows, "text", {options.resamples, options.seed}, progress);
  Evaluation e;
  e.profile = profile->name;
  e.epsilon = profile->epsilon;
  e.windows_available = windows.available;
  e.shape = options.shape;
  e.rebuilt_cells = profile->omitted_layers.empty()
                        ? 0
                        : RebuiltRange(profile->ends, WindowScorer::HistoryCells(options.shape)).size();
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

absl::StatusOr<std::vector<Evaluation>> EvaluateHistories(Engine& engine, kernels::Backend& backend,
                                                          const PredictorSet& set, const TextFile& text,
                                                          const EvaluateOptions& options, Progress& progress) {
  std::vector<int> histories = options.histories;
  if (histories.empty()) histories = {options.shape.history};
  std::vector<Evaluation> out;
  for (int history : histories) {
    EvaluateOptions one = options;
    one.shape.history = history;
    auto e = Evaluate(engine, backend, set, text, one, progress);
    if (!e.ok()) return histories.size() > 1 ? Annotate(e.status(), fmt::format("history {}", history)) : e.status();
    out.push_back(*std::move(e));
  }
  return out;
}

std::string GateVerdict(const Evaluation& e) {
  if (e.epsilon <= 0) return "no budget";
  if (e.measurement.stats.windows < kFewestGateWindows) return "too few windows";
  return Admissible(Gate::kUpper90, e.epsilon, e.measurement.stats, nullptr) ? "holds" : "does not hold";
}

nlohmann::json ToJson(const std::vector<Evaluation>& evaluations) {
  if (evaluations.size() == 1) return ToJson(evaluations.front());
  nlohmann::json by_history = nlohmann::json::array();
  for (const Evaluation& e : evaluations) by_history.push_back(ToJson(e));
  return {{"profile", evaluations.empty() ? "" : evaluations.front().profile}, {"by_history", std::move(by_history)}};
}

nlohmann::json ToJson(const Evaluation& e) {
  nlohmann::json deltas = nlohmann::json::array(), articles = nlohmann::json::array();
  for (const WindowNll& w : e.measurement.windows) {
    deltas.push_back(w.delta());
    articles.push_back(w.article);
  }
  const RiskStats& s = e.measurement.stats;
  nlohmann::json j = {{"profile", e.profile},
                      {"history", e.shape.history},
                      {"horizon", e.shape.horizon},
                      {"rebuilt_cells", e.rebuilt_cells},
                      {"windows", s.windows},
                      {"articles", s.articles},
                      {"windows_available", e.windows_available},
                      {"nll_delta_mean", s.mean},
                      {"nll_delta_low95", s.low95},
                      {"nll_delta_high95", s.high95},
                      {"nll_delta_upper90", s.upper90},
                      {"nll_delta_p50", s.p50},
                      {"nll_delta_p90", s.p90},
                      {"nll_delta_p99", s.p99},
                      {"nll_delta_worst", s.worst},
                      {"gate", GateVerdict(e)},
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

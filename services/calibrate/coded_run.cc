// Running the coded commands: see coded_commands.h.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/codec/codec_section.h"
#include "common/kv/convert.h"
#include "fmt/format.h"
#include "services/calibrate/coded_calibrator.h"
#include "services/calibrate/coded_commands.h"
#include "services/calibrate/coded_report.h"
#include "services/calibrate/commands.h"
#include "services/calibrate/engine_factory.h"
#include "services/calibrate/interrupt.h"
#include "services/calibrate/progress_line.h"

namespace riskkv::calibrate {
namespace {

constexpr std::string_view kStepPrefix = "coded-step-";

int Finish(std::string_view command, const absl::Status& status) {
  if (status.ok()) return kExitOk;
  const std::string reason = ReasonOf(status);
  fmt::print(stderr, "riskkv {}: {}{}\n", command, std::string(status.message()), reason.empty() ? "" : " [" + reason + "]");
  return ExitCodeFor(status);
}

void PrintPoint(const CodedProfile& p) {
  fmt::print("{:<14} {:6.2f}x fewer bytes  change of NLL {:+.5f} (upper 90 {:+.5f})", p.name, p.times_fewer, p.select.mean,
             p.select.upper90);
  if (p.confirm.windows > 0) fmt::print("  confirm {:+.5f} ({:+.5f})", p.confirm.mean, p.confirm.upper90);
  fmt::print("\n");
}

const char* WeightsName(const CodedCalibration& c) { return c.int8_weights ? "int8" : "fp16"; }

void PrintCalibration(const CodedCalibration& c, const std::string& path, bool json) {
  if (json) {
    nlohmann::json j = {{"path", path}, {"codec_bytes", c.codec_bytes}, {"fit_windows", c.fit_windows}, {"weights", WeightsName(c)}, {"sensitivity", c.sensitivity}};
    for (const CodedPoint& p : c.path) j["steps"].push_back(ToJson(p));
    for (const CodedProfile& p : c.profiles) j["profiles"].push_back(ToJson(p));
    for (const CodedProfile& p : c.int8_profiles) j["with_int8_weights"].push_back(ToJson(p));
    fmt::print("{}\n", j.dump(2));
    return;
  }
  fmt::print("{}\ncodec: {:.1f} MiB of weights in {}, fitted on {} windows\n", path,
             static_cast<double>(c.codec_bytes) / (1 << 20), WeightsName(c), c.fit_windows);
  for (const CodedPoint& p : c.path) PrintPoint(p.profile);
  fmt::print("profiles:\n");
  for (const CodedProfile& p : c.profiles) PrintPoint(p);
  if (!c.int8_profiles.empty()) fmt::print("with weights in 8 bits{}:\n", c.int8_weights ? "" : " (not taken)");
  for (const CodedProfile& p : c.int8_profiles) PrintPoint(p);
}

// The frontier of the finished set, and its page.
absl::Status ReportCoded(Engine& engine, const CalibrateOptions& options, const Splits& splits,
                         const CodedCalibration& result, Progress& progress) {
  std::unique_ptr<kernels::Backend> backend;
  RETURN_IF_ERROR(ToAbsl(kernels::CreateBackend(kernels::BackendChoice::kCpu, options.engine.threads, &backend)));
  ASSIGN_OR_RETURN(const CodedComparison comparison,
                   CompareCoded(engine, *backend, options, splits, *result.set, progress));
  RETURN_IF_ERROR(progress.Check());
  ASSIGN_OR_RETURN(const std::string missing,
                   WriteCodedReport({options, splits, result, comparison, engine.facts()}, options.report));
  if (!missing.empty()) fmt::print(stderr, "riskkv calibrate: {}\n", missing);
  if (!options.json) fmt::print("report: {}\n", (std::filesystem::path(options.report) / "index.html").string());
  return absl::OkStatus();
}

absl::Status CalibrateCoded(const CalibrateOptions& asked) {
  CalibrateOptions options = asked;
  options.engine.threads = ResolveThreads(options.engine.threads);
  if (options.fit.empty() || options.select.empty())
    return absl::InvalidArgumentError("--fit and --select name the texts");
  std::shared_ptr<const PredictorSet> base;
  if (!options.base.empty()) {
    ASSIGN_OR_RETURN(base, PredictorSet::Open(options.base));
  }
  ASSIGN_OR_RETURN(const Splits splits, ReadSplits(options));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, MakeEngine(options.engine, options.shape.length() + 64));
  RealClock clock;
  InterruptGuard guard(*engine);
  ProgressLine progress(clock);
  // The calibrator ends here: its work folder is the report's next.
  ASSIGN_OR_RETURN(const CodedCalibration result,
                   CodedCalibrator(*engine, base.get(), options, progress).Run(splits));
  RETURN_IF_ERROR(progress.Check());
  ASSIGN_OR_RETURN(const std::string path, WritePredictorSet(result.bytes, options.out));
  PrintCalibration(result, path, options.json);
  // The set is there whatever happens to the report.
  return options.report.empty() ? absl::OkStatus() : ReportCoded(*engine, options, splits, result, progress);
}

absl::StatusOr<CodedProfile> ChooseProfile(const PredictorSet& set, const BlockCodec& codec,
                                           const EvaluateOptions& options) {
  const std::string& name = options.profile;
  if (name.rfind(kStepPrefix, 0) != 0) return FindCodedProfile(set, name);
  float step = 0;
  if (!absl::SimpleAtof(name.substr(kStepPrefix.size()), &step) || !(step > 0) || !std::isfinite(step))
    return absl::InvalidArgumentError(fmt::format("profile {}: no positive step", name));
  CodedProfile profile;
  profile.name = name;
  profile.steps.assign(codec.weights().units.size(), step);
  profile.ends = options.coded_ends;
  profile.int8_ends = !options.exact_ends;
  return profile;
}

nlohmann::json EvaluationJson(const CodedProfile& profile, const CodedMeasurement& m) {
  double exact = 0, coded = 0;
  nlohmann::json deltas = nlohmann::json::array(), articles = nlohmann::json::array();
  for (const WindowNll& w : m.windows) {
    exact += w.exact / static_cast<double>(m.windows.size());
    coded += w.rebuilt / static_cast<double>(m.windows.size());
    deltas.push_back(w.delta());
    articles.push_back(w.article);
  }
  const int64_t n = std::max<int64_t>(1, static_cast<int64_t>(m.windows.size()));
  nlohmann::json j = {{"profile", profile.name},
                      {"windows", m.stats.windows},
                      {"articles", m.stats.articles},
                      {"nll_delta_mean", m.stats.mean},
                      {"nll_delta_low95", m.stats.low95},
                      {"nll_delta_high95", m.stats.high95},
                      {"nll_delta_upper90", m.stats.upper90},
                      {"nll_delta_per_request", deltas},
                      {"article_per_request", articles},
                      {"perplexity_exact", std::exp(exact)},
                      {"perplexity_rebuilt", std::exp(coded)},
                      {"perplexity_change_percent", 100 * std::expm1(coded - exact)},
                      {"bytes_full", m.bytes_full / n},
                      {"bytes_sent", m.bytes_sent / n},
                      {"times_fewer", m.times_fewer()}};
  if (profile.epsilon > 0) {
    j["epsilon"] = profile.epsilon;
    j["mean_within_epsilon"] = m.stats.mean <= profile.epsilon;
    j["upper90_within_epsilon"] = m.stats.upper90 <= profile.epsilon;
  }
  return j;
}

// One length of history.
absl::StatusOr<CodedMeasurement> EvaluateOne(Engine& engine, const BlockCodec& codec, const CodedProfile& profile,
                                             const TextFile& text, const EvaluateOptions& options, Progress& progress) {
  ASSIGN_OR_RETURN(const WindowSet windows, CutWindows(engine, text, options.shape, options.seed, options.windows));
  ASSIGN_OR_RETURN(const auto store, CellStore::Create(options.temp_dir, codec.layout()));
  CodedMeter meter(engine, *store, windows, "text", {options.resamples, options.seed}, progress);
  return meter.Measure(codec, profile);
}

absl::Status EvaluateCoded(const EvaluateOptions& asked) {
  EvaluateOptions options = asked;
  options.engine.threads = ResolveThreads(options.engine.threads);
  if (options.histories.empty()) options.histories = {options.shape.history};
  const int longest = *std::max_element(options.histories.begin(), options.histories.end());
  ASSIGN_OR_RETURN(const auto set, PredictorSet::Open(options.predictors));
  ASSIGN_OR_RETURN(const auto codec, OpenCodec(*set));
  ASSIGN_OR_RETURN(const CodedProfile profile, ChooseProfile(*set, *codec, options));
  ASSIGN_OR_RETURN(const TextFile text, ReadArticles(options.text));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, MakeEngine(options.engine, longest + options.shape.horizon + 64));
  RETURN_IF_ERROR(set->CheckModel(engine->facts().fingerprint));
  RealClock clock;
  InterruptGuard guard(*engine);
  ProgressLine progress(clock);
  nlohmann::json all = nlohmann::json::array();
  for (int history : options.histories) {
    options.shape.history = history;
    ASSIGN_OR_RETURN(const CodedMeasurement m, EvaluateOne(*engine, *codec, profile, text, options, progress));
    all.push_back(EvaluationJson(profile, m));
    all.back()["history"] = history;
    if (options.json) continue;
    CodedProfile shown = profile;
    shown.select = m.stats;
    shown.confirm = {};
    shown.times_fewer = m.times_fewer();
    fmt::print("{:>6} tokens  ", history);
    PrintPoint(shown);
  }
  if (!options.json) return absl::OkStatus();
  const nlohmann::json several = {{"profile", profile.name}, {"by_history", all}};
  fmt::print("{}\n", (all.size() == 1 ? all.front() : several).dump(2));
  return absl::OkStatus();
}

}  // namespace

int RunCalibrateCoded(const CalibrateOptions& options) { return Finish("calibrate", CalibrateCoded(options)); }
int RunEvaluateCoded(const EvaluateOptions& options) { return Finish("evaluate", EvaluateCoded(options)); }

}  // namespace riskkv::calibrate

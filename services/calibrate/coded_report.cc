#include "services/calibrate/coded_report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "common/base/status.h"
#include "common/predictor/set_json.h"
#include "fmt/format.h"
#include "services/calibrate/frontier_report.h"
#include "services/calibrate/report_html.h"
#include "services/calibrate/window_refs.h"

namespace riskkv::calibrate {
namespace {

const MeasuredPolicy* FindMeasured(const CodedComparison& comparison, const std::string& name) {
  for (const MeasuredPolicy& m : comparison.policies) {
    if (m.policy.family == PolicyFamily::kCoded && m.policy.name == name) return &m;
  }
  return nullptr;
}

std::string StepsText(const CodedProfile& p) {
  const auto [low, high] = std::minmax_element(p.steps.begin(), p.steps.end());
  if (p.steps.empty() || *low == *high) return p.steps.empty() ? "none" : fmt::format("{:g}", *low);
  return fmt::format("{:g} to {:g}", *low, *high);
}

// What each budget got, in a sentence.
std::string CodedVerdicts(const CodedReportInput& in) {
  std::string out = "<div class=verdict>";
  for (double epsilon : in.options.epsilons) {
    const std::string name = CodedProfileName(epsilon);
    const auto& profiles = in.calibration.profiles;
    const auto p =
        std::find_if(profiles.begin(), profiles.end(), [&](const CodedProfile& c) { return c.name == name; });
    if (p == profiles.end()) {
      out +=
          fmt::format("<p><b>Budget {:g}</b>: no step passes the gate. There is no coded profile for it.</p>", epsilon);
      continue;
    }
    out += fmt::format(
        "<p><b>{}</b> ({} gate), step {}: <b>{:.2f} times fewer bytes</b> on select, change of NLL {} 95&nbsp;% {}",
        name, p->gate, StepsText(*p), p->times_fewer, Nats(p->select.mean),
        Interval(p->select.low95, p->select.high95));
    if (const MeasuredPolicy* m = FindMeasured(in.comparison, name); m != nullptr) {
      const RiskStats& s = m->measurement.stats;
      const double exact = in.comparison.exact_nll;
      out += fmt::format(
          "; on {} {} times fewer, perplexity {:.3f} becomes {:.3f} ({}), change of NLL {} {}, worst request {}",
          in.comparison.split, TimesFewer(m->policy.full_bytes, m->policy.sent_bytes), std::exp(exact),
          std::exp(exact + s.mean), SignedPercent(PerplexityChange(s.mean)), Nats(s.mean), Interval(s.low95, s.high95),
          Nats(s.worst));
    }
    out += ".</p>";
  }
  return out + "</div>\n";
}

std::string StepsHtml(const CodedReportInput& in) {
  std::vector<std::vector<std::string>> rows;
  for (const CodedPoint& point : in.calibration.path) {
    const CodedProfile& p = point.profile;
    const bool confirmed = p.confirm.windows > 0;
    rows.push_back({Escaped(p.name), StepsText(p), fmt::format("{:.2f}", p.times_fewer), Nats(p.select.mean),
                    Nats(p.select.upper90), Nats(p.select.p50), Nats(p.select.p90), Nats(p.select.p99),
                    Nats(p.select.worst), confirmed ? Nats(p.confirm.mean) : "",
                    confirmed ? Nats(p.confirm.upper90) : ""});
  }
  return "<h2>Steps that were tried</h2>\n" +
         HtmlTable({"point", "step", "x fewer", "select: change of NLL", "upper 90 %", "p50", "p90", "p99", "worst",
                    "confirm: change of NLL", "upper 90 %"},
                   rows);
}

std::string CodedHowMade(const CodedReportInput& in) {
  const CodedComparison& c = in.comparison;
  return fmt::format(
      "<h2>How it was made</h2>\n<p class=small>riskkv {}; model {} ({}), {} layers; set {}, {:.1f} MiB of codec, "
      "fitted on {} windows. "
      "Compared on {} of {} windows of {} ({} articles), history {}, horizon {}; bootstrap over articles, then "
      "windows, {} resamples, "
      "seed {}. Every byte is counted. Every number is in report.json.</p>\n",
      RISKKV_VERSION, Escaped(in.facts.name), Escaped(in.facts.fingerprint.architecture),
      in.facts.fingerprint.layout.n_layer, in.calibration.set->digest().substr(0, 16),
      static_cast<double>(in.calibration.codec_bytes) / kPageMiB, in.calibration.fit_windows, c.windows.size(),
      c.windows_available, c.split, c.articles, c.shape.history, c.shape.horizon, in.options.resamples,
      in.options.seed);
}

}  // namespace

absl::StatusOr<CodedComparison> CompareCoded(Engine& engine, kernels::Backend& backend, const CalibrateOptions& options,
                                             const Splits& splits, const PredictorSet& set, Progress& progress) {
  CodedComparison result;
  result.split = splits.confirm ? "confirm" : "select";
  const TextFile& text = splits.confirm ? *splits.confirm : splits.select;
  const int limit = splits.confirm ? options.windows_confirm : options.windows_select;
  ASSIGN_OR_RETURN(const WindowSet windows, CutWindows(engine, text, options.shape, options.seed, limit));
  ASSIGN_OR_RETURN(const std::unique_ptr<ResultStore> store, OpenResultStore(options.work_dir, options.temp_dir));
  ASSIGN_OR_RETURN(const CodedSource source, OpenCodedSource(set));
  std::unique_ptr<UploadedSet> uploaded;
  std::vector<std::vector<int>> path, admitted;
  if (!set.groups().empty()) {
    ASSIGN_OR_RETURN(uploaded, UploadedSet::Create(backend, set));
    for (const PathPoint& p : set.info().path) path.push_back(p.groups);
    for (const auto& [name, p] : set.profiles()) admitted.push_back(p.gated ? p.groups : std::vector<int>{});
  }
  RiskMeter meter(engine, *store, windows, result.split, {options.resamples, options.seed}, progress);
  const std::set<std::vector<int>> landmarks = Landmarks(path, admitted);
  progress.Plan(static_cast<int>(windows.windows.size()) *
                (static_cast<int>(path.size()) + 1 + FrontierScorings(&source)));
  const PolicyContext context{backend,
                              uploaded ? uploaded->handle() : 0,
                              set,
                              {options.ends, false},
                              WindowScorer::HistoryCells(options.shape)};
  ASSIGN_OR_RETURN(result.policies, MeasureFrontier({meter, *store, context, path, landmarks, &source}));
  result.shape = options.shape;
  result.exact_nll = meter.exact_nll();
  result.windows_available = windows.available;
  result.articles = windows.articles;
  result.windows = WindowRefs(engine, windows, text);
  return result;
}

nlohmann::json CodedReportJson(const CodedReportInput& in) {
  const CodedComparison& c = in.comparison;
  nlohmann::json steps = nlohmann::json::array(), profiles = nlohmann::json::array();
  for (const CodedPoint& p : in.calibration.path) steps.push_back(ToJson(p));
  for (const CodedProfile& p : in.calibration.profiles) profiles.push_back(ToJson(p));
  return {{"format", "riskkv-coded-report"},
          {"format_version", 1},
          {"versions", {{"riskkv", RISKKV_VERSION}}},
          {"model", {{"name", in.facts.name}, {"parameters", in.facts.n_params}}},
          {"set", {{"digest", in.calibration.set->digest()}, {"codec_bytes", in.calibration.codec_bytes}}},
          {"options",
           {{"seed", in.options.seed},
            {"resamples", in.options.resamples},
            {"history", c.shape.history},
            {"horizon", c.shape.horizon},
            {"epsilons", in.options.epsilons}}},
          {"sensitivity", in.calibration.sensitivity},
          {"steps", std::move(steps)},
          {"profiles", std::move(profiles)},
          {"compared_on", c.split},
          {"exact_nll", c.exact_nll},
          {"windows", WindowRefsJson(c.windows)},
          {"windows_available", c.windows_available},
          {"rivals", FrontierJson(c.policies)}};
}

std::string CodedReportPage(const CodedReportInput& in, const std::vector<Plot>& plots,
                            const std::map<std::string, std::string>& pictures) {
  const CodedComparison& c = in.comparison;
  std::string out = PageStart("What coding a cache costs: " +
                              (in.facts.name.empty() ? in.facts.fingerprint.architecture : in.facts.name));
  out += CodedVerdicts(in) + Figures(plots, pictures);
  out += "<h2>Ways to send a cache, on the " + c.split + " windows</h2>\n" + FrontierHtml(c.policies) + StepsHtml(in);
  const MeasuredPolicy* coarsest = nullptr;
  for (const CodedProfile& p : in.calibration.profiles) {
    const MeasuredPolicy* m = FindMeasured(c, p.name);
    if (m != nullptr && (coarsest == nullptr || m->policy.sent_bytes < coarsest->policy.sent_bytes)) coarsest = m;
  }
  if (coarsest != nullptr) out += WorstRequests(coarsest->policy.name, {{c.split, &c.windows, &coarsest->measurement}});
  return out + CodedHowMade(in) + PageEnd();
}

absl::StatusOr<std::string> WriteCodedReport(const CodedReportInput& in, const std::string& folder) {
  std::vector<Plot> plots = {FrontierPlot(in.comparison.policies, in.comparison.split)};
  std::erase_if(plots, [](const Plot& p) { return p.script.empty(); });
  const std::map<std::string, std::string> files = {{"report.json", CodedReportJson(in).dump(1) + "\n"},
                                                    {"rivals.csv", FrontierCsv(in.comparison.policies)}};
  return WriteReportFolder(folder, files, plots, [&](const std::map<std::string, std::string>& pictures) {
    return CodedReportPage(in, plots, pictures);
  });
}

}  // namespace riskkv::calibrate

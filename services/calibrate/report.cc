#include "services/calibrate/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <tuple>

#include "common/base/status.h"
#include "common/predictor/mapped_file.h"
#include "common/predictor/set_json.h"
#include "fmt/format.h"
#include "services/calibrate/frontier_report.h"
#include "services/calibrate/tables.h"

namespace riskkv::calibrate {
namespace {

using nlohmann::json;

json MeasurementsJson(const MeasurementMap& map) {
  json j = json::object();
  for (const auto& [groups, m] : map) j[groups] = MeasurementJson(m);
  return j;
}

json SplitsJson(const ReportInput& in) {
  const CalibrationResult& r = in.result;
  json j = {{"fit", TextSplitJson(in.splits.fit, r.windows.fit, r.articles.fit, r.available.fit)},
            {"select", TextSplitJson(in.splits.select, r.windows.select, r.articles.select, r.available.select)}};
  if (in.splits.confirm)
    j["confirm"] = TextSplitJson(*in.splits.confirm, r.windows.confirm, r.articles.confirm, r.available.confirm);
  return j;
}

json ProportionJson(const Proportion& p) { return {{"value", p.value}, {"low95", p.low95}, {"high95", p.high95}}; }

json TrialsJson(const std::vector<GateTrials>& trials) {
  json j = json::array();
  for (const GateTrials& t : trials) {
    j.push_back({{"gate", GateName(t.gate)},
                 {"epsilon", t.epsilon},
                 {"resamples", t.trials},
                 {"violations_per_resample", ProportionJson(t.violations)},
                 {"violations_per_request", ProportionJson(t.request_violations)},
                 {"bytes_saved", {{"mean", t.bytes_saved}, {"low95", t.bytes_saved_low}, {"high95", t.bytes_saved_high}}},
                 {"chose_nothing", t.chose_nothing}});
  }
  return j;
}

json BudgetsJson(const std::vector<BudgetResult>& budgets) {
  json j = json::array();
  for (const BudgetResult& b : budgets)
    j.push_back({{"epsilon", b.epsilon}, {"gate", GateName(b.gate)}, {"profile", b.profile}, {"groups", b.groups}});
  return j;
}

json LayoutsJson(const std::vector<LayoutResult>& layouts) {
  json j = json::array();
  for (const LayoutResult& l : layouts) {
    json groups = json::array();
    for (const GroupInfo& g : l.groups) groups.push_back(ToJson(g));
    j.push_back({{"name", l.name},
                 {"groups", std::move(groups)},
                 {"order", l.path.order},
                 {"budgets", BudgetsJson(l.budgets)},
                 {"weights_bytes_fp32", l.weights_bytes},
                 {"select", MeasurementsJson(l.select)},
                 {"confirm", MeasurementsJson(l.confirm)}});
  }
  return j;
}

json HistoriesJson(const std::vector<HistoryResult>& histories) {
  json j = json::array();
  for (const HistoryResult& h : histories) {
    json one = MeasurementJson(h.measurement);
    one.update({{"history", h.history},
                {"groups", h.groups},
                {"rebuilt_cells", h.rebuilt_cells},
                {"sent_bytes", h.sent_bytes},
                {"full_bytes", h.full_bytes},
                {"windows_available", h.windows_available}});
    j.push_back(std::move(one));
  }
  return j;
}

json LambdaJson(const std::vector<FittedGroup>& fitted) {
  json j = json::array();
  for (const FittedGroup& g : fitted) {
    json curve = json::array();
    for (const LambdaPoint& p : g.lambda.curve) curve.push_back({{"lambda", p.lambda}, {"held_out_error", p.error}});
    j.push_back({{"chosen", g.lambda.lambda}, {"curve", std::move(curve)}});
  }
  return j;
}

json TableJson(const ReportInput& in) {
  json one = json::array(), three = json::array();
  for (const TopologyRow& r : TableOne(in)) {
    one.push_back({{"split", r.split},
                   {"groups", r.groups},
                   {"omitted_layers", r.layers},
                   {"omitted_bytes", r.omitted_bytes},
                   {"full_bytes", r.full_bytes},
                   {"omitted_share", r.omitted_share()},
                   {"omitted_layer_share", r.layer_share},
                   {"perplexity_exact", r.exact_perplexity},
                   {"perplexity_rebuilt", r.perplexity},
                   {"nll_delta", ToJson(r.stats)}});
  }
  for (const SizeRow& r : TableThree(in))
    three.push_back({{"group", r.group}, {"raw", r.raw}, {"folded_fp32", r.folded_fp32}, {"folded_fp16", r.folded_fp16}});
  return {{"I", std::move(one)}, {"II", TrialsJson(in.result.comparison.trials)}, {"III", std::move(three)}};
}

// Errors of rebuilt layers on held-out tokens, and the bounds above which a destination refuses.
json ProbeJson(const PredictorSet& set) {
  json layers = json::array();
  for (std::size_t g = 0; g < set.groups().size(); ++g) {
    for (const LayerCalibration& l : set.groups()[g].layers) {
      for (const auto& [part, e, bound] : {std::tuple{"K", &l.k, l.k_bound}, std::tuple{"V", &l.v, l.v_bound}}) {
        layers.push_back({{"group", g},
                          {"layer", l.layer},
                          {"part", part},
                          {"mean", e->mean},
                          {"p50", e->p50},
                          {"p90", e->p90},
                          {"p99", e->p99},
                          {"refused_above", bound}});
      }
    }
  }
  const ProbePolicy& p = set.info().probe;
  return {{"false_alarm", p.false_alarm},
          {"margin", p.margin},
          {"tokens_per_block", p.tokens_per_block},
          {"block_tokens", p.block_tokens},
          {"layers", std::move(layers)}};
}

}  // namespace

nlohmann::json MeasurementJson(const Measurement& m) {
  json windows = json::array();
  for (const WindowNll& w : m.windows)
    windows.push_back({{"article", w.article}, {"exact", w.exact}, {"rebuilt", w.rebuilt}, {"delta", w.delta()}});
  return {{"stats", ToJson(m.stats)}, {"windows", std::move(windows)}, {"delta_by_token", m.delta_by_token}};
}

nlohmann::json WindowRefsJson(const std::vector<WindowRef>& refs) {
  json j = json::array();
  for (const WindowRef& r : refs) {
    j.push_back(
        {{"article", r.article}, {"title", r.title}, {"index", r.index}, {"before", r.before}, {"after", r.after}});
  }
  return j;
}

nlohmann::json TextSplitJson(const TextFile& file, int windows, int articles, int available) {
  json digests = json::array();
  for (const Article& a : file.articles) digests.push_back({{"title", a.title}, {"sha256", a.digest}});
  return {{"file", std::filesystem::path(file.path).filename().string()},
          {"sha256", file.digest},
          {"windows", windows},
          {"windows_available", available},
          {"articles", articles},
          {"articles_repeated", file.repeated},
          {"articles_in_file", std::move(digests)}};
}

double PerplexityChange(double delta_nll) { return std::expm1(delta_nll); }

std::vector<int> FocusGroups(const CalibrationResult& r) {
  std::vector<int> groups;
  for (const BudgetResult& b : r.budgets) {
    if (b.groups.size() > groups.size()) groups = b.groups;
  }
  return groups.empty() && !r.path.prefixes.empty() ? r.path.prefixes.back().groups : groups;
}

const Measurement* FocusMeasurement(const CalibrationResult& r, const std::vector<int>& groups) {
  const MeasurementMap& map = r.comparison.split == "confirm" ? r.confirmed : r.measured;
  const auto it = map.find(GroupsKey(groups));
  return it == map.end() ? nullptr : &it->second;
}

std::vector<TopologyRow> TableOne(const ReportInput& in) {
  const CalibrationResult& r = in.result;
  const KvLayout& layout = r.set->layout();
  const int64_t cells = WindowScorer::HistoryCells(r.shape);
  std::vector<TopologyRow> rows;
  for (const auto& [split, map, exact] :
       {std::tuple{"select", &r.measured, r.exact_nll}, std::tuple{"confirm", &r.confirmed, r.exact_nll_confirm}}) {
    for (const Candidate& c : r.path.prefixes) {
      const auto it = map->find(GroupsKey(c.groups));
      if (it == map->end()) continue;
      const Profile profile = CandidateProfile(*r.set, c.groups, in.options.ends);
      TopologyRow row;
      row.split = split;
      row.groups = c.groups;
      row.layers = profile.omitted_layers;
      row.full_bytes = FullBytes(layout, cells);
      row.omitted_bytes = row.full_bytes - SentBytes(layout, profile, cells);
      row.layer_share = static_cast<double>(row.layers.size()) / layout.n_layer;
      row.exact_perplexity = std::exp(exact);
      row.perplexity = std::exp(exact + it->second.stats.mean);
      row.stats = it->second.stats;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<SizeRow> TableThree(const ReportInput& in) {
  std::vector<SizeRow> rows;
  const int kv = in.result.set->layout().kv();
  for (std::size_t g = 0; g < in.result.set->groups().size(); ++g) {
    const GroupSpec& spec = in.result.set->groups()[g].spec;
    const int64_t inputs = InputWidth(spec, kv) + 1;
    SizeRow row;
    row.group = static_cast<int>(g);
    row.raw = inputs * static_cast<int64_t>(spec.targets.size()) * in.result.hidden_width * 4;
    row.folded_fp32 = inputs * OutputWidth(spec, kv) * 4;
    row.folded_fp16 = row.folded_fp32 / 2;
    rows.push_back(row);
  }
  return rows;
}

nlohmann::json ReportJson(const ReportInput& in) {
  const CalibrationResult& r = in.result;
  json dtypes = json::array();
  for (const DtypeResult& d : r.comparison.dtypes) {
    json one = MeasurementJson(d.measurement);
    one.update({{"dtype", d.dtype}, {"groups", d.groups}});
    dtypes.push_back(std::move(one));
  }
  return {{"format", "riskkv-report"},
          {"format_version", 1},
          {"versions", {{"riskkv", RISKKV_VERSION}, {"set_format", 1}}},
          {"model", {{"name", in.facts.name}, {"hidden_width", in.facts.n_embd}, {"parameters", in.facts.n_params}}},
          {"options",
           {{"seed", in.options.seed},
            {"resamples", in.options.resamples},
            {"trials", in.options.trials},
            {"history", r.shape.history},
            {"horizon", r.shape.horizon},
            {"ends", {in.options.ends.first, in.options.ends.last}},
            {"epsilons", in.options.epsilons},
            {"dtype", in.options.dtype},
            {"probe_margin", in.options.probe_margin}}},
          {"splits", SplitsJson(in)},
          {"set", SetJson(*r.set)},
          {"probe", ProbeJson(*r.set)},
          {"budgets", BudgetsJson(r.budgets)},
          {"order", r.path.order},
          {"exact_nll", {{"select", r.exact_nll}, {"confirm", r.exact_nll_confirm}}},
          {"windows", {{"select", WindowRefsJson(r.select_windows)}, {"confirm", WindowRefsJson(r.confirm_windows)}}},
          {"measured", {{"select", MeasurementsJson(r.measured)}, {"confirm", MeasurementsJson(r.confirmed)}}},
          {"tables", TableJson(in)},
          {"compared_on", r.comparison.split},
          {"rivals", FrontierJson(r.comparison.policies)},
          {"weight_types", std::move(dtypes)},
          {"histories", HistoriesJson(r.comparison.histories)},
          {"layouts", LayoutsJson(r.comparison.layouts)},
          {"lambda", LambdaJson(r.fitted)},
          {"time", {{"seconds", r.time.total}, {"engine_seconds", r.time.engine}, {"engine_tokens", r.time.tokens}}}};
}

absl::StatusOr<std::string> WriteReportFolder(
    const std::string& folder, const std::map<std::string, std::string>& files, const std::vector<Plot>& plots,
    const std::function<std::string(const std::map<std::string, std::string>& pictures)>& page) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return absl::InternalError(fmt::format("cannot make the folder {}: {}", folder, error.message()));
  for (const auto& [name, bytes] : files)
    RETURN_IF_ERROR(WriteFileAtomically((fs::path(folder) / name).string(), bytes));
  std::string missing;
  std::map<std::string, std::string> pictures;
  absl::StatusOr<std::map<std::string, std::string>> rendered = RenderPlots(plots, folder + "/plots");
  if (rendered.ok()) {
    pictures = *std::move(rendered);
  } else if (absl::IsNotFound(rendered.status())) {
    missing = "the report has no plots: gnuplot is not installed (Debian: gnuplot-nox)";
  } else {
    return rendered.status();
  }
  RETURN_IF_ERROR(WriteFileAtomically((fs::path(folder) / "index.html").string(), page(pictures)));
  return missing;
}

absl::StatusOr<std::string> WriteReport(const ReportInput& in, const std::string& folder) {
  std::map<std::string, std::string> files = ReportTables(in);
  files["report.json"] = ReportJson(in).dump(1) + "\n";
  const std::vector<Plot> plots = ReportPlots(in);
  return WriteReportFolder(folder, files, plots, [&](const std::map<std::string, std::string>& pictures) {
    return ReportPage(in, plots, pictures);
  });
}

}  // namespace riskkv::calibrate

// The page: see report.h. Plain HTML with its style and pictures inside; no script.
#include <algorithm>
#include <filesystem>
#include <tuple>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "common/predictor/fold.h"
#include "services/calibrate/frontier_report.h"
#include "services/calibrate/report_html.h"

namespace riskkv::calibrate {
namespace {

// What each budget got, in a sentence.
std::string Verdicts(const ReportInput& in) {
  const CalibrationResult& r = in.result;
  std::string out = "<div class=verdict>";
  const std::vector<TopologyRow> rows = TableOne(in);
  for (const BudgetResult& b : r.budgets) {
    if (b.groups.empty()) {
      out += fmt::format("<p><b>Budget {:g}</b>: no candidate passes the {} gate. The profile is <b>exact</b>: nothing is omitted.</p>",
                         b.epsilon, GateName(b.gate));
      continue;
    }
    out += fmt::format("<p><b>{}</b> ({} gate) omits groups {}", b.profile, GateName(b.gate), GroupList(b.groups));
    for (const TopologyRow& row : rows) {
      if (row.groups != b.groups) continue;
      if (row.split == "select")
        out += fmt::format(": {} of the layers, {} of a request's bytes", Percent(row.layer_share), Percent(row.omitted_share()));
      out += fmt::format("; on {} perplexity {:.3f} becomes {:.3f} ({}), change of NLL {} 95&nbsp;% {}", row.split,
                         row.exact_perplexity, row.perplexity, SignedPercent(PerplexityChange(row.stats.mean)),
                         Nats(row.stats.mean), Interval(row.stats.low95, row.stats.high95));
    }
    out += ".</p>";
  }
  return out + "</div>\n";
}

// Distribution over requests, for each admitted profile (all groups, when none was) on every split and length of
// history.
std::string RequestsHtml(const ReportInput& in) {
  const CalibrationResult& r = in.result;
  std::vector<std::vector<std::string>> rows;
  auto add = [&](const std::string& name, double epsilon, const std::string& split, int history, const Measurement& m) {
    const RiskStats& s = m.stats;
    const auto above =
        std::count_if(m.windows.begin(), m.windows.end(), [&](const WindowNll& w) { return w.delta() > epsilon; });
    rows.push_back({name, split, fmt::format("{}", history), fmt::format("{}", s.windows), Nats(s.mean),
                    Interval(s.low95, s.high95), Nats(s.p50), Nats(s.p90), Nats(s.p99), Nats(s.worst),
                    epsilon > 0 ? fmt::format("{} of {}", above, m.windows.size()) : ""});
  };
  std::vector<BudgetResult> profiles = r.budgets;
  std::erase_if(profiles, [](const BudgetResult& b) { return b.groups.empty(); });
  if (profiles.empty()) profiles.push_back({0, "all groups (no profile)", Gate::kMean, FocusGroups(r)});
  for (const BudgetResult& b : profiles) {
    for (const auto& [split, map] : {std::pair{"select", &r.measured}, std::pair{"confirm", &r.confirmed}}) {
      if (const auto it = map->find(GroupsKey(b.groups)); it != map->end())
        add(b.profile, b.epsilon, split, r.shape.history, it->second);
    }
    for (const HistoryResult& h : r.comparison.histories) {
      if (h.groups == b.groups && h.measurement.stats.windows > 0)
        add(b.profile, b.epsilon, r.comparison.split, h.history, h.measurement);
    }
  }
  return "<h2>What requests lose, by profile</h2>\n" +
         HtmlTable({"profile", "split", "history", "requests", "mean", "95 %", "p50", "p90", "p99", "worst",
                    "requests above the budget"},
                   rows);
}

// Errors of the rebuilt layers and the bounds of the probe.
std::string ProbeHtml(const ReportInput& in) {
  const ProbePolicy& probe = in.result.set->info().probe;
  std::vector<std::vector<std::string>> rows;
  for (std::size_t g = 0; g < in.result.set->groups().size(); ++g) {
    for (const LayerCalibration& l : in.result.set->groups()[g].layers) {
      std::vector<std::string> row = {fmt::format("{}", g), fmt::format("{}", l.layer)};
      for (const auto& [e, bound] : {std::pair{&l.k, l.k_bound}, std::pair{&l.v, l.v_bound}}) {
        for (double x : {e->mean, e->p50, e->p90, e->p99}) row.push_back(Percent(x));
        row.push_back("<b>" + Percent(bound) + "</b>");
      }
      rows.push_back(std::move(row));
    }
  }
  return fmt::format(
             "<h2>Probe: when a destination refuses</h2>\n<p class=small>Squared error of single tokens of the "
             "selection windows, of the "
             "layer's variance, all groups rebuilt. A move sends {} exact tokens of each {}; it is refused when their "
             "mean error is above "
             "a bound. Bounds: {} of honest moves like these refused, then times {:g}.</p>\n",
             probe.tokens_per_block, probe.block_tokens, Percent(probe.false_alarm, 0), probe.margin) +
         HtmlTable({"group", "layer", "K mean", "p50", "p90", "p99", "refused above", "V mean", "p50", "p90", "p99",
                    "refused above"},
                   rows);
}

// The paper's Table III beside what the same formula gives here.
std::string PaperHtml() {
  struct Model {
    const char* name;
    int layers, kv, d;
    double raw, folded;  // the paper's, MiB a group
  };
  std::vector<std::vector<std::string>> rows;
  for (const Model& m :
       {Model{"Qwen2.5-0.5B", 24, 128, 896, 7.007, 2.002}, Model{"Qwen2.5-1.5B", 28, 256, 1536, 24.01, 8.004},
        Model{"TinyLlama", 22, 256, 2048, 32.016, 8.004}}) {
    const std::vector<GroupSpec> groups = PeriodFourGroups(m.layers);
    auto mib = [](int64_t bytes) { return fmt::format("{:.3f}", static_cast<double>(bytes) / kPageMiB); };
    rows.push_back({m.name, fmt::format("{}", groups.size()), fmt::format("{:g}", m.raw),
                    mib(RawBytes(groups[0], m.kv, m.d, 4)), fmt::format("{:.3f}", m.folded),
                    mib(FoldedBytes(groups[0], m.kv, 4))});
  }
  return "<p class=small>The paper (RISK-KV, arXiv 2610.29544) for its three models, beside this program's formula; "
         "MiB a group, fp32. Its "
         "Tables I and II were not at hand: their numbers are missing here, not left out.</p>\n" +
         HtmlTable({"model", "groups", "raw ridge, paper", "raw ridge, here", "folded, paper", "folded, here"}, rows);
}

std::string TableOneHtml(const ReportInput& in) {
  std::vector<std::vector<std::string>> rows;
  for (const TopologyRow& r : TableOne(in)) {
    const RiskStats& s = r.stats;
    rows.push_back({GroupList(r.groups), r.split, Percent(r.layer_share), fmt::format("{:.2f}", r.omitted_bytes / kPageMiB),
                    Percent(r.omitted_share()), fmt::format("{:.4f}", r.exact_perplexity), fmt::format("{:.4f}", r.perplexity),
                    SignedPercent(PerplexityChange(s.mean)), Nats(s.mean), Interval(s.low95, s.high95), Nats(s.upper90),
                    Nats(s.p50), Nats(s.p90), Nats(s.p99), Nats(s.worst), fmt::format("{}", s.windows)});
  }
  return HtmlTable({"groups omitted", "split", "layers", "MiB omitted", "of a request", "ppl exact", "ppl rebuilt", "change",
                    "change of NLL", "95 %", "upper 90 %", "p50", "p90", "p99", "worst", "requests"},
                   rows);
}

std::string TableTwoHtml(const ReportInput& in) {
  if (in.result.comparison.trials.empty())
    return "<p class=small>Not made: it needs a confirmation split to hold the gates against.</p>\n";
  std::vector<std::vector<std::string>> rows;
  auto range = [](const Proportion& p) {
    return fmt::format("{} [{}, {}]", Percent(p.value), Percent(p.low95), Percent(p.high95));
  };
  for (const GateTrials& t : in.result.comparison.trials) {
    rows.push_back({fmt::format("{:g}", t.epsilon), GateName(t.gate), range(t.violations), range(t.request_violations),
                    range({t.bytes_saved, t.bytes_saved_low, t.bytes_saved_high}), Percent(t.chose_nothing)});
  }
  return HtmlTable({"budget", "gate", "resamples in violation", "requests above budget", "layer bytes saved", "chose nothing"}, rows);
}

std::string TableThreeHtml(const ReportInput& in) {
  std::vector<std::vector<std::string>> rows;
  auto mib = [](int64_t bytes) { return fmt::format("{:.3f}", static_cast<double>(bytes) / kPageMiB); };
  for (const SizeRow& r : TableThree(in)) {
    const GroupInfo& g = in.result.set->groups()[static_cast<std::size_t>(r.group)];
    rows.push_back({fmt::format("{}", r.group), fmt::format("{}", fmt::join(g.spec.anchors, ", ")),
                    fmt::format("{}", fmt::join(g.spec.targets, ", ")), mib(r.raw), mib(r.folded_fp32), mib(r.folded_fp16),
                    fmt::format("{:g}", g.lambda), Percent(g.held_out_error, 2)});
  }
  std::string out = HtmlTable({"group", "anchors", "targets", "raw ridge, MiB", "folded fp32", "folded fp16", "lambda", "held-out error"}, rows);
  rows.clear();
  for (const DtypeResult& d : in.result.comparison.dtypes) {
    const RiskStats& s = d.measurement.stats;
    rows.push_back({d.dtype, GroupList(d.groups), Nats(s.mean), Interval(s.low95, s.high95), SignedPercent(PerplexityChange(s.mean))});
  }
  return out + HtmlTable({"weights", "groups omitted", "change of NLL", "95 %", "perplexity"}, rows);
}

std::string HistoriesHtml(const ReportInput& in) {
  if (in.result.comparison.histories.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  auto add = [&](int history, int64_t omitted, int64_t full, const RiskStats& s) {
    const std::string none = "-";
    const bool measured = s.windows > 0;
    rows.push_back({fmt::format("{}", history), fmt::format("{}", s.windows),
                    Percent(static_cast<double>(omitted) / static_cast<double>(std::max<int64_t>(1, full))),
                    measured ? Nats(s.mean) : none, measured ? Interval(s.low95, s.high95) : none,
                    measured ? Nats(s.p50) : none, measured ? Nats(s.p90) : none, measured ? Nats(s.p99) : none,
                    measured ? Nats(s.worst) : none});
  };
  const std::vector<int> groups = FocusGroups(in.result);
  for (const TopologyRow& r : TableOne(in)) {
    if (r.groups == groups && r.split == in.result.comparison.split)
      add(in.result.shape.history, r.omitted_bytes, r.full_bytes, r.stats);
  }
  for (const HistoryResult& h : in.result.comparison.histories)
    add(h.history, h.full_bytes - h.sent_bytes, h.full_bytes, h.measurement.stats);
  return fmt::format("<h2>Length of history, groups {} omitted</h2>\n", GroupList(groups)) +
         HtmlTable({"tokens", "requests", "bytes not sent", "change of NLL", "95 %", "p50", "p90", "p99", "worst"},
                   rows);
}

std::string LayoutsHtml(const ReportInput& in) {
  if (in.result.comparison.layouts.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  auto add = [&](const std::string& name, std::size_t groups, int64_t bytes, const std::vector<BudgetResult>& budgets,
                 const std::vector<GroupInfo>& infos) {
    for (const BudgetResult& b : budgets) {
      rows.push_back({Escaped(name), fmt::format("{}", groups), fmt::format("{:.1f}", bytes / kPageMiB), fmt::format("{:g}", b.epsilon),
                      b.profile, GroupList(b.groups),
                      Percent(static_cast<double>(TargetsOf(infos, b.groups).size()) / in.result.set->layout().n_layer)});
    }
  };
  int64_t own = 0;
  for (const SizeRow& r : TableThree(in)) own += r.folded_fp32;
  add(in.result.set->info().layout, in.result.set->groups().size(), own, in.result.budgets, in.result.set->groups());
  for (const LayoutResult& l : in.result.comparison.layouts) add(l.name, l.groups.size(), l.weights_bytes, l.budgets, l.groups);
  return "<h2>Layouts</h2>\n" +
         HtmlTable({"layout", "groups", "weights fp32, MiB", "budget", "profile", "groups omitted", "layers omitted"}, rows);
}

std::string WorstHtml(const ReportInput& in) {
  const std::vector<int> groups = FocusGroups(in.result);
  std::vector<RequestSample> samples;
  for (const auto& [split, map, refs] : {std::tuple{"select", &in.result.measured, &in.result.select_windows},
                                         std::tuple{"confirm", &in.result.confirmed, &in.result.confirm_windows}}) {
    if (const auto it = map->find(GroupsKey(groups)); it != map->end()) samples.push_back({split, refs, &it->second});
  }
  return WorstRequests(fmt::format("groups {} omitted", GroupList(groups)), samples);
}

std::string HowMade(const ReportInput& in) {
  const CalibrationResult& r = in.result;
  std::vector<std::vector<std::string>> rows;
  auto add = [&](const char* split, const TextFile& file, int windows, int available, int articles) {
    rows.push_back({split, Escaped(std::filesystem::path(file.path).filename().string()), fmt::format("{} of {}", windows, available),
                    fmt::format("{} of {}", articles, file.articles.size()), file.digest.substr(0, 16)});
  };
  add("fit", in.splits.fit, r.windows.fit, r.available.fit, r.articles.fit);
  add("select", in.splits.select, r.windows.select, r.available.select, r.articles.select);
  if (in.splits.confirm) add("confirm", *in.splits.confirm, r.windows.confirm, r.available.confirm, r.articles.confirm);
  return "<h2>How it was made</h2>\n" + HtmlTable({"split", "file", "windows", "articles", "SHA-256"}, rows) +
         fmt::format("<p class=small>riskkv {}; model {} ({}), {} layers, {} key/value heads of {}; predictor set {}, weights {}; "
                     "history {}, horizon {}, ends {} and {} exact; bootstrap over articles, then windows, {} resamples, seed {}. "
                     "{:.0f} s, {:.2f} times the {:.0f} s that the engine alone needed for its {} tokens. Every number is in "
                     "report.json; plots/ has the scripts of the pictures.</p>\n",
                     RISKKV_VERSION, Escaped(in.facts.name), Escaped(in.facts.fingerprint.architecture), r.set->layout().n_layer,
                     r.set->layout().n_head_kv, r.set->layout().head_dim, r.set->digest().substr(0, 16),
                     r.set->weight_type_name(), r.shape.history, r.shape.horizon, in.options.ends.first, in.options.ends.last,
                     in.options.resamples, in.options.seed, r.time.total,
                     r.time.engine > 0 ? r.time.total / r.time.engine : 0.0, r.time.engine, r.time.tokens);
}

}  // namespace

std::string ReportPage(const ReportInput& in, const std::vector<Plot>& plots,
                       const std::map<std::string, std::string>& pictures) {
  std::string out = PageStart("What omitting layers costs: " +
                              (in.facts.name.empty() ? in.facts.fingerprint.architecture : in.facts.name));
  out += Verdicts(in) + Figures(plots, pictures) + RequestsHtml(in);
  if (!in.result.comparison.policies.empty()) {
    out += "<h2>Ways to send a cache, on the " + in.result.comparison.split + " windows</h2>\n" +
           FrontierHtml(in.result.comparison.policies);
  }
  out += "<h2>Table I: topologies along the path</h2>\n" + TableOneHtml(in);
  out += "<h2>Table II: what the gates are worth</h2>\n<p class=small>Each gate on resamples of half of the selection articles "
         "(Stable-split confirms on the other half), held against the confirmation windows; the order is that of all selection "
         "windows.</p>\n" + TableTwoHtml(in);
  out += "<h2>Table III: size of the predictors</h2>\n" + TableThreeHtml(in) + PaperHtml();
  return out + HistoriesHtml(in) + LayoutsHtml(in) + ProbeHtml(in) + WorstHtml(in) + HowMade(in) + PageEnd();
}

}  // namespace riskkv::calibrate

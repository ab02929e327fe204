// The page: see report.h. Plain HTML with its style and pictures inside; no script.
#include <algorithm>
#include <filesystem>
#include <tuple>

#include "absl/strings/escaping.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "services/calibrate/report.h"

namespace riskkv::calibrate {
namespace {

constexpr double kPageMiB = 1024.0 * 1024.0;
constexpr std::size_t kWorstRequests = 10;

constexpr char kStyle[] = R"(
body{font:15px/1.45 system-ui,sans-serif;color:#222;max-width:1100px;margin:24px auto;padding:0 16px}
h1{font-size:24px;margin-bottom:4px}h2{font-size:18px;margin:32px 0 8px}
table{border-collapse:collapse;font-size:12px;margin:8px 0}
td,th{padding:3px 6px;border-bottom:1px solid #e2e2e2;text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td:first-child,th:first-child{text-align:left}th{border-bottom:1px solid #888;font-weight:600}
.scroll{overflow-x:auto}.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(430px,1fr));gap:20px}
figure{margin:0}figure img{width:100%}figcaption{font-size:13px;color:#444}figcaption b{color:#222}
.verdict{background:#f3f7fb;border-left:4px solid #0072b2;padding:8px 14px;margin:12px 0}.verdict p{margin:4px 0}
.small{font-size:13px;color:#555})";

std::string Escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

// A table from its header and rows, cells already HTML.
std::string HtmlTable(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<div class=scroll><table><tr>";
  for (const std::string& h : header) out += "<th>" + h + "</th>";
  out += "</tr>\n";
  for (const auto& row : rows) {
    out += "<tr>";
    for (const std::string& cell : row) out += "<td>" + cell + "</td>";
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string Nats(double x) { return fmt::format("{:+.5f}", x); }
std::string Percent(double share, int digits = 1) { return fmt::format("{:.{}f} %", 100 * share, digits); }
std::string SignedPercent(double share) { return fmt::format("{:+.2f} %", 100 * share); }
std::string Interval(double low, double high) { return fmt::format("[{:+.5f}, {:+.5f}]", low, high); }
std::string GroupList(const std::vector<int>& groups) {
  return groups.empty() ? "none" : fmt::format("{}", fmt::join(groups, "+"));
}

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

std::string Figures(const std::vector<Plot>& plots, const std::map<std::string, std::string>& pictures) {
  if (pictures.empty()) return "<p class=small>No plots: gnuplot was not there when this page was made.</p>\n";
  std::string out = "<div class=grid>\n";
  for (const Plot& p : plots) {
    const auto it = pictures.find(p.name);
    if (it == pictures.end()) continue;
    out += fmt::format(
        "<figure><img alt=\"{}\" src=\"data:image/svg+xml;base64,{}\"><figcaption><b>{}.</b> {}</figcaption></figure>\n",
        Escaped(p.title), absl::Base64Escape(it->second), Escaped(p.title), Escaped(p.caption));
  }
  return out + "</div>\n";
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

std::string RivalsHtml(const ReportInput& in) {
  std::vector<std::vector<std::string>> rows;
  auto times = [](int64_t full, int64_t sent) {
    return fmt::format("{:.2f}", static_cast<double>(full) / static_cast<double>(std::max<int64_t>(1, sent)));
  };
  for (const PolicyResult& p : in.result.comparison.policies) {
    const CachePolicy& c = p.policy;
    const RiskStats& s = p.measurement.stats;
    rows.push_back({Escaped(c.name), fmt::format("{} / {}", c.ends.first, c.ends.last), fmt::format("{:.2f}", c.sent_bytes / kPageMiB),
                    times(c.full_bytes, c.sent_bytes), times(c.middle_full, c.middle_sent), SignedPercent(PerplexityChange(s.mean)),
                    fmt::format("[{}, {}]", SignedPercent(PerplexityChange(s.low95)), SignedPercent(PerplexityChange(s.high95))),
                    Nats(s.p90), Nats(s.worst)});
  }
  return HtmlTable({"what is sent", "ends exact", "MiB a request", "x fewer", "x fewer between ends", "perplexity", "95 %",
                    "NLL p90", "NLL worst"},
                   rows);
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
                    measured ? Nats(s.p90) : none, measured ? Nats(s.worst) : none});
  };
  const std::vector<int> groups = FocusGroups(in.result);
  for (const TopologyRow& r : TableOne(in)) {
    if (r.groups == groups && r.split == in.result.comparison.split)
      add(in.result.shape.history, r.omitted_bytes, r.full_bytes, r.stats);
  }
  for (const HistoryResult& h : in.result.comparison.histories)
    add(h.history, h.full_bytes - h.sent_bytes, h.full_bytes, h.measurement.stats);
  return fmt::format("<h2>Length of history, groups {} omitted</h2>\n", GroupList(groups)) +
         HtmlTable({"tokens", "requests", "bytes not sent", "change of NLL", "95 %", "p90", "worst"}, rows);
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
  struct Row {
    const char* split;
    WindowRef ref;
    WindowNll nll;
  };
  std::vector<Row> worst;
  for (const auto& [split, map, refs] : {std::tuple{"select", &in.result.measured, &in.result.select_windows},
                                         std::tuple{"confirm", &in.result.confirmed, &in.result.confirm_windows}}) {
    const auto it = map->find(GroupsKey(groups));
    if (it == map->end()) continue;
    for (std::size_t i = 0; i < it->second.windows.size() && i < refs->size(); ++i)
      worst.push_back({split, (*refs)[i], it->second.windows[i]});
  }
  std::sort(worst.begin(), worst.end(), [](const Row& a, const Row& b) { return a.nll.delta() > b.nll.delta(); });
  worst.resize(std::min(worst.size(), kWorstRequests));
  std::vector<std::vector<std::string>> rows;
  for (const Row& r : worst) {
    rows.push_back({Escaped(r.ref.title.empty() ? "(no title)" : r.ref.title), r.split, fmt::format("{}", r.ref.index),
                    fmt::format("{:.4f}", r.nll.exact), fmt::format("{:.4f}", r.nll.rebuilt), Nats(r.nll.delta())});
  }
  return fmt::format("<h2>The worst requests, groups {} omitted</h2>\n", GroupList(groups)) +
         HtmlTable({"article", "split", "window", "NLL exact", "NLL rebuilt", "change"}, rows);
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
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content=\"width=device-width\">"
      "<title>riskkv calibration: {0}</title><style>{1}</style></head><body>\n<h1>What omitting layers costs: {0}</h1>\n",
      Escaped(in.facts.name.empty() ? in.facts.fingerprint.architecture : in.facts.name), kStyle);
  out += "<p class=small>A budget bounds the mean change of NLL, in nats per token, over requests like these texts. It is no "
         "promise about other text or about each request: calibrate on your own traffic.</p>\n";
  out += Verdicts(in) + Figures(plots, pictures);
  out += "<h2>Table I: topologies along the path</h2>\n" + TableOneHtml(in);
  out += "<h2>Table II: what the gates are worth</h2>\n<p class=small>Each gate on resamples of half of the selection articles "
         "(Stable-split confirms on the other half), held against the confirmation windows; the order is that of all selection "
         "windows.</p>\n" + TableTwoHtml(in);
  out += "<h2>Table III: size of the predictors</h2>\n" + TableThreeHtml(in);
  if (!in.result.comparison.policies.empty())
    out += "<h2>Rivals, on the " + in.result.comparison.split + " windows</h2>\n" + RivalsHtml(in);
  return out + HistoriesHtml(in) + LayoutsHtml(in) + WorstHtml(in) + HowMade(in) + "</body></html>\n";
}

}  // namespace riskkv::calibrate

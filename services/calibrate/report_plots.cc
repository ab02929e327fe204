// The report's plots as gnuplot scripts: see report.h. Changes of NLL are in thousandths of a nat per token.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <tuple>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "services/calibrate/frontier_report.h"
#include "services/calibrate/report_html.h"

namespace riskkv::calibrate {
namespace {

constexpr double kMilli = 1000;
constexpr int kTokenBins = 16;

std::string Share(const RiskStats& s) { return fmt::format("{:.5f} {:.5f} {:.5f}", kMilli * s.mean, kMilli * s.low95, kMilli * s.high95); }

// Dashed horizontal lines at the budgets, with their names.
std::string BudgetLines(const CalibrateOptions& options) {
  std::string out;
  int n = 1;
  for (double e : options.epsilons) {
    out += fmt::format("set arrow {0} from graph 0, first {1:g} to graph 1, first {1:g} nohead dt 2 lc rgb '{2}' back\n", n,
                       kMilli * e, kGrey);
    out += fmt::format("set label {0} 'budget {1:g}' at graph 0.01, first {2:g} offset 0,0.4 tc rgb '{3}' font ',10'\n", n, e,
                       kMilli * e, kGrey);
    ++n;
  }
  return out;
}

Plot RiskPlot(const ReportInput& in) {
  std::string data, ticks;
  for (std::size_t g = 0; g < in.result.path.singles.size(); ++g) {
    data += fmt::format("{} {}\n", g, Share(in.result.path.singles[g].select));
    ticks += fmt::format("{}\"{}\\n{}\" {}", g == 0 ? "" : ", ", g,
                         fmt::join(in.result.set->groups()[g].spec.targets, ","), g);
  }
  std::string script = "$d << EOD\n" + data + "EOD\n" + BudgetLines(in.options);
  script += fmt::format(
      "set xtics ({})\nset bmargin 5\nset xlabel 'group, and the layers it omits' offset 0,-1\nset ylabel 'change of NLL, 1/1000 nat per token'\n"
      "set xrange [-0.6:{}]\nset xzeroaxis lc rgb '#bbbbbb'\nunset key\n"
      "plot $d using 1:2:3:4 with yerrorbars pt 7 ps 0.9 lw 1.6 lc rgb '{}'\n",
      ticks, static_cast<double>(in.result.path.singles.size()) - 0.4, kBlue);
  return {"risk", "What each group alone costs",
          "Mean change of NLL with one group rebuilt, on the selection windows; bars are 95 % intervals over articles and "
          "windows. Below zero is noise: a rebuild knows nothing that the exact cache does not.",
          script};
}

// "share-of-bytes mean low high upper90" of each prefix measured on a split.
std::string PathData(const ReportInput& in, const char* split) {
  std::string data;
  for (const TopologyRow& r : TableOne(in)) {
    if (r.split == split)
      data += fmt::format("{:.4f} {} {:.5f}\n", 100 * r.omitted_share(), Share(r.stats), kMilli * r.stats.upper90);
  }
  return data;
}

Plot PathPlot(const ReportInput& in) {
  const std::string confirm = PathData(in, "confirm");
  std::string script = "$select << EOD\n" + PathData(in, "select") + "EOD\n";
  if (!confirm.empty()) script += "$confirm << EOD\n" + confirm + "EOD\n";
  script += BudgetLines(in.options);
  script += "set xlabel 'bytes of a request not sent, %'\nset ylabel 'change of NLL, 1/1000 nat per token'\n"
            "set xzeroaxis lc rgb '#bbbbbb'\nset offsets 1.5,1.5,0,0\n";
  script += fmt::format(
      "plot $select using ($1-0.2):2:3:4 with yerrorbars pt 7 ps 0.8 lw 1.5 lc rgb '{0}' title 'select, 95 %', "
      "$select using ($1-0.2):5 with lines lw 1.4 dt 3 lc rgb '{0}' title 'select, upper 90 %'",
      kBlue);
  if (!confirm.empty()) {
    script += fmt::format(
        ", $confirm using ($1+0.2):2:3:4 with yerrorbars pt 5 ps 0.7 lw 1.5 lc rgb '{0}' title 'confirm, 95 %', "
        "$confirm using ($1+0.2):5 with lines lw 1.4 dt 3 lc rgb '{0}' title 'confirm, upper 90 %'",
        kOrange);
  }
  return {"path", "The path: bytes against risk",
          fmt::format("Groups are omitted in the order {}, safest per byte first. A budget is kept where the dotted bound lies "
                      "below its line on both splits.",
                      fmt::join(in.result.path.order, ", ")),
          script + "\n"};
}

Plot LayerPlot(const ReportInput& in) {
  std::string data, ticks;
  for (const GroupInfo& g : in.result.set->groups()) {
    for (const LayerCalibration& l : g.layers) {
      data += fmt::format("{}", l.layer);
      for (const auto& [e, bound] : {std::pair{&l.k, l.k_bound}, std::pair{&l.v, l.v_bound}})
        data += fmt::format(" {:.4f} {:.4f} {:.4f} {:.4f}", 100 * e->mean, 100 * e->p50, 100 * e->p99, 100 * bound);
      data += "\n";
      ticks += fmt::format("{}{}", ticks.empty() ? "" : ", ", l.layer);
    }
  }
  std::string script = "$d << EOD\n" + data + "EOD\n";
  script += fmt::format(
      "set xlabel 'omitted layer'\nset ylabel 'squared error, % of the variance'\nset logscale y\nset xtics ({0})\n"
      "set offsets 1,1,0,0\nset key tmargin center maxcols 3\n"
      "plot $d using ($1-0.2):2:3:4 with yerrorbars pt 7 ps 0.8 lw 1.6 lc rgb '{1}' title 'K: mean, p50 to p99', "
      "$d using ($1+0.2):6:7:8 with yerrorbars pt 5 ps 0.7 lw 1.6 lc rgb '{2}' title 'V', "
      "$d using ($1-0.2):5 with points pt 2 ps 0.8 lw 1.6 lc rgb '{1}' title 'refused above, K', "
      "$d using ($1+0.2):9 with points pt 2 ps 0.8 lw 1.6 lc rgb '{2}' title 'V'\n",
      ticks, kBlue, kOrange);
  return {"layers", "How well each layer is rebuilt, and what is refused",
          fmt::format("Squared error of single rebuilt tokens on the selection windows; 100 % would be predicting the "
                      "mean. A move is "
                      "refused when its probe ({} tokens of each {}) lies above a cross.",
                      in.result.set->info().probe.tokens_per_block, in.result.set->info().probe.block_tokens),
          script};
}

Plot TokenPlot(const ReportInput& in) {
  std::string script, plots;
  int n = 0;
  std::vector<std::vector<int>> shown = {FocusGroups(in.result)};
  if (const std::vector<int>& all = in.result.path.prefixes.back().groups; all != shown[0]) shown.push_back(all);
  for (const std::vector<int>& groups : shown) {
    const Measurement* m = FocusMeasurement(in.result, groups);
    if (m == nullptr) continue;
    const std::size_t tokens = m->delta_by_token.size(), bins = std::min<std::size_t>(kTokenBins, tokens);
    script += fmt::format("$d{} << EOD\n", n);
    for (std::size_t b = 0; b < bins; ++b) {
      const std::size_t from = tokens * b / bins, to = tokens * (b + 1) / bins;
      double sum = 0;
      for (std::size_t t = from; t < to; ++t) sum += m->delta_by_token[t];
      script += fmt::format("{:.1f} {:.5f}\n", static_cast<double>(from + to) / 2, kMilli * sum / static_cast<double>(to - from));
    }
    script += "EOD\n";
    plots += fmt::format("{}$d{} using 1:2 with linespoints pt 7 ps 0.6 lw 1.6 lc rgb '{}' title 'groups {} omitted'",
                         n == 0 ? "" : ", ", n, n == 0 ? kBlue : kOrange, fmt::join(groups, "+"));
    ++n;
  }
  script += "set xlabel 'token after the move'\nset ylabel 'change of NLL, 1/1000 nat per token'\n"
            "set xzeroaxis lc rgb '#bbbbbb'\nset xrange [0:*]\nplot " + plots + "\n";
  return {"tokens", "Where the risk sits",
          "Mean change of NLL along the scored tokens, in bins, over the " + in.result.comparison.split +
              " windows. It fades when later tokens lean on cells computed after the move.",
          n > 0 ? script : ""};
}

// Ascending changes of single requests against the share of requests below.
std::string RequestRows(const Measurement& m) {
  std::vector<double> deltas;
  for (const WindowNll& w : m.windows) deltas.push_back(w.delta());
  std::sort(deltas.begin(), deltas.end());
  std::string rows;
  for (std::size_t i = 0; i < deltas.size(); ++i)
    rows += fmt::format("{:.5f} {:.3f}\n", kMilli * deltas[i],
                        100.0 * (static_cast<double>(i) + 0.5) / static_cast<double>(deltas.size()));
  return rows;
}

Plot RequestPlot(const ReportInput& in) {
  constexpr const char* kColours[] = {kBlue, kOrange, kGreen, kPurple};
  std::set<std::vector<int>> shown = {FocusGroups(in.result)};
  for (const BudgetResult& b : in.result.budgets) {
    if (!b.groups.empty()) shown.insert(b.groups);
  }
  std::string script, plots;
  std::size_t n = 0;
  for (const std::vector<int>& groups : shown) {
    for (const auto& [split, map] :
         {std::pair{"select", &in.result.measured}, std::pair{"confirm", &in.result.confirmed}}) {
      const auto it = map->find(GroupsKey(groups));
      if (it == map->end()) continue;
      script += fmt::format("$q{} << EOD\n{}EOD\n", n, RequestRows(it->second));
      plots +=
          fmt::format("{}$q{} using 1:2 with linespoints pt 7 ps 0.4 lw 1.4 lc rgb '{}' title '{}, {}'",
                      plots.empty() ? "" : ", ", n, kColours[n % std::size(kColours)], fmt::join(groups, "+"), split);
      ++n;
    }
  }
  script +=
      "set xlabel 'change of NLL of one request, 1/1000 nat per token'\nset ylabel 'requests below, %'\n"
      "set yrange [0:100]\nset yzeroaxis lc rgb '#bbbbbb'\nset key tmargin center maxcols 2\nplot " +
      plots + "\n";
  return {"requests", "What single requests lose",
          "Distribution over requests with these groups omitted. A budget is a promise about the mean, not about each "
          "request.",
          plots.empty() ? "" : script};
}

Plot LambdaPlot(const ReportInput& in) {
  std::string script, plots;
  for (std::size_t g = 0; g < in.result.fitted.size(); ++g) {
    script += fmt::format("$g{} << EOD\n", g);
    for (const LambdaPoint& p : in.result.fitted[g].lambda.curve) script += fmt::format("{:g} {:.5f}\n", p.lambda, 100 * p.error);
    script += "EOD\n";
    plots += fmt::format("{}$g{} using 1:2 with linespoints pt 7 ps 0.5 lw 1.4 title 'group {}'", g == 0 ? "" : ", ", g, g);
  }
  script += "set logscale x\nset format x '10^{%L}'\nset termoption enhanced\nset xlabel 'lambda, of the mean variance of a feature'\n"
            "set ylabel 'held-out squared error, % of the variance'\nplot " + plots + "\n";
  return {"lambda", "Choice of lambda", "Error on held-out fit windows by ridge strength; the lowest point of each curve is used.",
          script};
}

Plot LayoutPlot(const ReportInput& in) {
  const bool confirm = in.result.comparison.split == "confirm";
  const int layers = in.result.set->layout().n_layer;
  const std::vector<const char*> colours = {kBlue, kOrange, kGreen, kPurple, kGrey};
  std::string script, plots;
  std::size_t n = 0;
  auto add = [&](const std::string& name, const RiskPath& path, const std::vector<GroupInfo>& groups, const MeasurementMap& map) {
    script += fmt::format("$l{} << EOD\n", n);
    for (const Candidate& c : path.prefixes) {
      const auto it = map.find(GroupsKey(c.groups));
      if (it == map.end()) continue;
      script += fmt::format("{:.3f} {}\n", 100.0 * static_cast<double>(TargetsOf(groups, c.groups).size()) / layers,
                            Share(it->second.stats));
    }
    script += "EOD\n";
    plots += fmt::format("{0}$l{1} using ($1+{2:.2f}):2:3:4 with yerrorbars pt 7 ps 0.7 lw 1.3 lc rgb '{3}' title '{4}', $l{1} "
                         "using ($1+{2:.2f}):2 with lines lc rgb '{3}' notitle",
                         n == 0 ? "" : ", ", n, 0.25 * static_cast<double>(n), colours[n % colours.size()], name);
    ++n;
  };
  add(in.result.set->info().layout, in.result.path, in.result.set->groups(), confirm ? in.result.confirmed : in.result.measured);
  for (const LayoutResult& l : in.result.comparison.layouts) add(l.name, l.path, l.groups, confirm ? l.confirm : l.select);
  script += BudgetLines(in.options);
  script += "set xlabel 'layers omitted, % of all'\nset ylabel 'change of NLL, 1/1000 nat per token'\n"
            "set xzeroaxis lc rgb '#bbbbbb'\nplot " + plots + "\n";
  return {"layouts", "Other layouts of anchors and targets",
          "Each layout along its own path, on the " + in.result.comparison.split + " windows.",
          in.result.comparison.layouts.empty() ? "" : script};
}

}  // namespace

std::vector<Plot> ReportPlots(const ReportInput& in) {
  std::vector<Plot> plots;
  for (Plot p : {PathPlot(in), FrontierPlot(in.result.comparison.policies, in.result.comparison.split), RiskPlot(in),
                 LayerPlot(in), TokenPlot(in), RequestPlot(in), LambdaPlot(in), LayoutPlot(in)}) {
    if (!p.script.empty()) plots.push_back(std::move(p));
  }
  return plots;
}

}  // namespace riskkv::calibrate

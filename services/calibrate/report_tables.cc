// The report's CSV files: see report.h. Fields hold no commas, quotes or newlines but titles, which are quoted.
#include <algorithm>
#include <tuple>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "services/calibrate/frontier_report.h"
#include "services/calibrate/report.h"

namespace riskkv::calibrate {
namespace {

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string TableOneCsv(const ReportInput& in) {
  std::string out = fmt::format(
      "split,groups,omitted_layers,omitted_bytes,full_bytes,omitted_share,omitted_layer_share,perplexity_exact,"
      "perplexity_rebuilt,perplexity_change,{}\n",
      StatsHeader());
  for (const TopologyRow& r : TableOne(in)) {
    out += fmt::format("{},{},{},{},{},{:.6f},{:.6f},{:.6f},{:.6f},{:.6g},{}\n", r.split, fmt::join(r.groups, "+"),
                       fmt::join(r.layers, "+"), r.omitted_bytes, r.full_bytes, r.omitted_share(), r.layer_share,
                       r.exact_perplexity, r.perplexity, PerplexityChange(r.stats.mean), StatsFields(r.stats));
  }
  return out;
}

std::string TableTwoCsv(const ReportInput& in) {
  std::string out =
      "epsilon,gate,resamples,violations_per_resample,low95,high95,violations_per_request,low95,high95,bytes_saved,low95,"
      "high95,chose_nothing\n";
  for (const GateTrials& t : in.result.comparison.trials) {
    out += fmt::format("{:g},{},{},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f},{:.6f}\n", t.epsilon,
                       GateName(t.gate), t.trials, t.violations.value, t.violations.low95, t.violations.high95,
                       t.request_violations.value, t.request_violations.low95, t.request_violations.high95, t.bytes_saved,
                       t.bytes_saved_low, t.bytes_saved_high, t.chose_nothing);
  }
  return out;
}

std::string TableThreeCsv(const ReportInput& in) {
  std::string out = "group,raw_ridge_bytes,folded_fp32_bytes,folded_fp16_bytes\n";
  for (const SizeRow& r : TableThree(in))
    out += fmt::format("{},{},{},{}\n", r.group, r.raw, r.folded_fp32, r.folded_fp16);
  return out;
}

std::string LayoutsCsv(const ReportInput& in) {
  std::string out = fmt::format("layout,split,groups,{}\n", StatsHeader());
  auto add = [&](const std::string& name, const RiskPath& path, const MeasurementMap& select, const MeasurementMap& confirm) {
    for (const auto& [split, map] : {std::pair{"select", &select}, std::pair{"confirm", &confirm}}) {
      for (const Candidate& c : path.prefixes) {
        const auto it = map->find(GroupsKey(c.groups));
        if (it != map->end())
          out += fmt::format("{},{},{},{}\n", name, split, fmt::join(c.groups, "+"), StatsFields(it->second.stats));
      }
    }
  };
  add(in.result.set->info().layout, in.result.path, in.result.measured, in.result.confirmed);
  for (const LayoutResult& l : in.result.comparison.layouts) add(Quoted(l.name), l.path, l.select, l.confirm);
  return out;
}

std::string RequestsCsv(const ReportInput& in) {
  std::string out = "split,article,title,window,groups,nll_exact,nll_rebuilt,nll_delta\n";
  for (const auto& [split, map, refs] :
       {std::tuple{"select", &in.result.measured, &in.result.select_windows},
        std::tuple{"confirm", &in.result.confirmed, &in.result.confirm_windows}}) {
    for (const auto& [groups, m] : *map) {
      for (std::size_t i = 0; i < m.windows.size() && i < refs->size(); ++i) {
        const WindowRef& ref = (*refs)[i];
        out += fmt::format("{},{},{},{},{},{:.6f},{:.6f},{:.6g}\n", split, ref.article, Quoted(ref.title), ref.index, groups,
                           m.windows[i].exact, m.windows[i].rebuilt, m.windows[i].delta());
      }
    }
  }
  return out;
}

}  // namespace

const char* StatsHeader() {
  return "nll_delta_mean,nll_delta_low95,nll_delta_high95,nll_delta_upper90,nll_delta_p50,nll_delta_p90,nll_delta_p99,"
         "nll_delta_worst,requests,articles";
}

std::string StatsFields(const RiskStats& s) {
  return fmt::format("{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{}", s.mean, s.low95, s.high95,
                     s.upper90, s.p50, s.p90, s.p99, s.worst, s.windows, s.articles);
}

std::map<std::string, std::string> ReportTables(const ReportInput& in) {
  return {{"table1.csv", TableOneCsv(in)},   {"table2.csv", TableTwoCsv(in)},
          {"table3.csv", TableThreeCsv(in)}, {"rivals.csv", FrontierCsv(in.result.comparison.policies)},
          {"layouts.csv", LayoutsCsv(in)},   {"requests.csv", RequestsCsv(in)}};
}

}  // namespace riskkv::calibrate

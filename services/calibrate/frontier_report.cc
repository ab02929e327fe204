#include "services/calibrate/frontier_report.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "services/calibrate/report_html.h"

namespace riskkv::calibrate {
namespace {

// Changes of perplexity above this, in percent, are left out of the chart, which would show nothing else.
constexpr double kChartTop = 2.5;

double TimesOf(const CachePolicy& p) {
  return static_cast<double>(p.full_bytes) / static_cast<double>(std::max<int64_t>(1, p.sent_bytes));
}

double ChangePercent(const MeasuredPolicy& m) { return 100 * PerplexityChange(m.measurement.stats.mean); }

// One kind of policy with one kind of ends: a series of the chart.
struct Series {
  PolicyFamily family;
  bool int8_ends;
  const char* colour;
  const char* title;
  int points;  // gnuplot's point type
  bool line;
};

constexpr Series kSeries[] = {
    {PolicyFamily::kOmission, false, kBlue, "omission (the path)", 7, true},
    {PolicyFamily::kBits, false, kGreen, "fewer bits", 5, false},
    {PolicyFamily::kBitsAndOmission, false, kPurple, "fewer bits and omission", 9, false},
    {PolicyFamily::kOmission, true, kBlue, "omission, int8 ends", 6, true},
    {PolicyFamily::kBits, true, kGreen, "fewer bits, int8 ends", 4, false},
    {PolicyFamily::kCoded, true, kOrange, "coded, int8 ends", 13, true},
    {PolicyFamily::kCoded, false, kOrange, "coded, exact ends", 12, true},
};

std::string SeriesRows(const Series& series, const std::vector<MeasuredPolicy>& policies) {
  std::vector<const MeasuredPolicy*> members;
  for (const MeasuredPolicy& m : policies) {
    if (m.policy.family == series.family && m.policy.ends.int8 == series.int8_ends && ChangePercent(m) <= kChartTop)
      members.push_back(&m);
  }
  std::sort(members.begin(), members.end(),
            [](const MeasuredPolicy* a, const MeasuredPolicy* b) { return TimesOf(a->policy) < TimesOf(b->policy); });
  std::string rows;
  for (const MeasuredPolicy* m : members) {
    const RiskStats& s = m->measurement.stats;
    rows += fmt::format("{:.4f} {:.5f} {:.5f} {:.5f} \"{}\"\n", TimesOf(m->policy), ChangePercent(*m),
                        100 * PerplexityChange(s.low95), 100 * PerplexityChange(s.high95), m->policy.label);
  }
  return rows;
}

std::string TooHigh(const std::vector<MeasuredPolicy>& policies) {
  std::string out;
  for (const MeasuredPolicy& m : policies) {
    if (ChangePercent(m) > kChartTop)
      out += fmt::format("{}{} ({:.2f}x, {:+.1f} %)", out.empty() ? " Above the picture: " : ", ", m.policy.label,
                         TimesOf(m.policy), ChangePercent(m));
  }
  return out.empty() ? out : out + ".";
}

}  // namespace

double CodedGain(const MeasuredPolicy& policy, const std::vector<MeasuredPolicy>& policies) {
  double gain = 0;
  for (const MeasuredPolicy& m : policies) {
    if (m.policy.family != PolicyFamily::kCoded || policy.policy.family == PolicyFamily::kCoded) continue;
    if (m.policy.ends != policy.policy.ends || m.measurement.stats.mean > policy.measurement.stats.mean) continue;
    gain = std::max(gain, static_cast<double>(policy.policy.sent_bytes) /
                              static_cast<double>(std::max<int64_t>(1, m.policy.sent_bytes)));
  }
  return gain;
}

Plot FrontierPlot(const std::vector<MeasuredPolicy>& policies, const std::string& split) {
  std::string data, plots;
  int n = 0;
  for (const Series& series : kSeries) {
    const std::string rows = SeriesRows(series, policies);
    if (rows.empty()) continue;
    data += fmt::format("$f{} << EOD\n{}EOD\n", n, rows);
    plots += fmt::format(
        "{0}$f{1} using 1:2:3:4 with yerrorbars pt {2} ps 0.8 lw 1.1 lc rgb '{3}' title '{4}', "
        "$f{1} using 1:2:5 with labels left offset 0.6,0.5 font ',9' tc rgb '{3}' notitle",
        n == 0 ? "" : ", ", n, series.points, series.colour, series.title);
    if (series.line) plots += fmt::format(", $f{} using 1:2 with lines lw 1.2 lc rgb '{}' notitle", n, series.colour);
    ++n;
  }
  const bool high = std::any_of(policies.begin(), policies.end(),
                                [](const MeasuredPolicy& m) { return ChangePercent(m) > kChartTop; });
  std::string script = data;
  script += fmt::format(
      "set logscale x 2\nset xtics (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24)\nset xrange [0.97:*]\nset offsets 0,graph 0.05,0,0\n{}"
      "set xlabel 'times fewer bytes of a request; ends, scales, zero points and headers counted'\n"
      "set ylabel 'change of perplexity, %'\nset xzeroaxis lc rgb '#bbbbbb'\nset key tmargin center maxcols 3\nplot "
      "{}\n",
      high ? fmt::format("set yrange [*:{}]\n", kChartTop) : "", plots);
  return {"rivals", "Bytes against change of perplexity",
          "Right is fewer bytes, down is better. All on the same " + split +
              " windows through the same import and scoring; bars are 95 % intervals." + TooHigh(policies),
          n > 0 ? script : ""};
}

std::string FrontierHtml(const std::vector<MeasuredPolicy>& policies) {
  const bool coded = std::any_of(policies.begin(), policies.end(),
                                 [](const MeasuredPolicy& m) { return m.policy.family == PolicyFamily::kCoded; });
  std::vector<std::vector<std::string>> rows;
  for (const MeasuredPolicy& m : policies) {
    const CachePolicy& c = m.policy;
    const RiskStats& s = m.measurement.stats;
    rows.push_back(
        {Escaped(c.name), CacheEndsName(c.ends), fmt::format("{:.2f}", static_cast<double>(c.sent_bytes) / kPageMiB),
         TimesFewer(c.full_bytes, c.sent_bytes), TimesFewer(c.middle_full, c.middle_sent),
         SignedPercent(PerplexityChange(s.mean)),
         fmt::format("[{}, {}]", SignedPercent(PerplexityChange(s.low95)), SignedPercent(PerplexityChange(s.high95))),
         Nats(s.p50), Nats(s.p90), Nats(s.p99), Nats(s.worst)});
    const double gain = CodedGain(m, policies);
    if (coded) rows.back().push_back(gain > 0 ? fmt::format("{:.2f}", gain) : "");
  }
  std::vector<std::string> header = {"what is sent", "ends", "MiB a request", "x fewer", "x fewer between ends",
                                     "perplexity",   "95 %", "NLL p50",       "NLL p90", "NLL p99",
                                     "NLL worst"};
  if (coded) header.push_back("coded, same ends, no more change: x fewer than this");
  return HtmlTable(header, rows);
}

std::string FrontierCsv(const std::vector<MeasuredPolicy>& policies) {
  std::string out = fmt::format(
      "name,kind,groups_omitted,ends_first,ends_last,ends_int8,sent_bytes,full_bytes,times_fewer,times_fewer_between_"
      "ends,"
      "perplexity_change,{}\n",
      StatsHeader());
  for (const MeasuredPolicy& m : policies) {
    const CachePolicy& c = m.policy;
    out += fmt::format("\"{}\",{},{},{},{},{},{},{},{:.4f},{:.4f},{:.6g},{}\n", c.name, PolicyFamilyName(c.family),
                       fmt::join(c.groups, "+"), c.ends.tokens.first, c.ends.tokens.last, c.ends.int8, c.sent_bytes,
                       c.full_bytes, TimesOf(c),
                       static_cast<double>(c.middle_full) / static_cast<double>(std::max<int64_t>(1, c.middle_sent)),
                       PerplexityChange(m.measurement.stats.mean), StatsFields(m.measurement.stats));
  }
  return out;
}

nlohmann::json FrontierJson(const std::vector<MeasuredPolicy>& policies) {
  nlohmann::json j = nlohmann::json::array();
  for (const MeasuredPolicy& m : policies) {
    const CachePolicy& c = m.policy;
    nlohmann::json one = MeasurementJson(m.measurement);
    one.update({{"name", c.name},
                {"kind", PolicyFamilyName(c.family)},
                {"groups_omitted", c.groups},
                {"ends", {c.ends.tokens.first, c.ends.tokens.last}},
                {"ends_int8", c.ends.int8},
                {"sent_bytes", c.sent_bytes},
                {"full_bytes", c.full_bytes},
                {"sent_bytes_between_ends", c.middle_sent},
                {"full_bytes_between_ends", c.middle_full},
                {"perplexity_change", PerplexityChange(m.measurement.stats.mean)},
                {"coded_times_fewer_at_no_more_change", CodedGain(m, policies)}});
    j.push_back(std::move(one));
  }
  return j;
}

}  // namespace riskkv::calibrate

#include "services/calibrate/report_html.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace riskkv::calibrate {
namespace {

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
.text{text-align:left;white-space:normal;min-width:420px}.text b{color:#d55e00}
.small{font-size:13px;color:#555})";

}  // namespace

std::string Escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

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
std::string Percent(double share, int digits) { return fmt::format("{:.{}f} %", 100 * share, digits); }
std::string SignedPercent(double share) { return fmt::format("{:+.2f} %", 100 * share); }
std::string Interval(double low, double high) { return fmt::format("[{:+.5f}, {:+.5f}]", low, high); }
std::string GroupList(const std::vector<int>& groups) {
  return groups.empty() ? "none" : fmt::format("{}", fmt::join(groups, "+"));
}

std::string TimesFewer(int64_t full, int64_t sent) {
  return fmt::format("{:.2f}", static_cast<double>(full) / static_cast<double>(std::max<int64_t>(1, sent)));
}

std::string PageStart(const std::string& title) {
  return fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content=\"width=device-width\">"
      "<title>riskkv calibration: {0}</title><style>{1}</style></head><body>\n<h1>{0}</h1>\n"
      "<p class=small>A budget bounds the mean change of NLL, in nats per token, over requests like these texts. It is "
      "no "
      "promise about other text or about each request: calibrate on your own traffic.</p>\n",
      Escaped(title), kStyle);
}

std::string PageEnd() { return "</body></html>\n"; }

std::string Figures(const std::vector<Plot>& plots, const std::map<std::string, std::string>& pictures) {
  if (pictures.empty()) return "<p class=small>No plots: gnuplot was not there when this page was made.</p>\n";
  std::string out = "<div class=grid>\n";
  for (const Plot& p : plots) {
    const auto it = pictures.find(p.name);
    if (it == pictures.end()) continue;
    out += fmt::format(
        "<figure><img alt=\"{}\" src=\"data:image/svg+xml;base64,{}\"><figcaption><b>{}.</b> "
        "{}</figcaption></figure>\n",
        Escaped(p.title), absl::Base64Escape(it->second), Escaped(p.title), Escaped(p.caption));
  }
  return out + "</div>\n";
}

std::string WorstRequests(const std::string& what, const std::vector<RequestSample>& samples) {
  struct Row {
    const RequestSample* sample;
    std::size_t window;
    double delta() const { return sample->measurement->windows[window].delta(); }
  };
  std::vector<Row> worst;
  for (const RequestSample& s : samples) {
    for (std::size_t i = 0; i < std::min(s.windows->size(), s.measurement->windows.size()); ++i)
      worst.push_back({&s, i});
  }
  std::stable_sort(worst.begin(), worst.end(), [](const Row& a, const Row& b) { return a.delta() > b.delta(); });
  worst.resize(std::min(worst.size(), kWorstRequests));
  std::vector<std::vector<std::string>> rows;
  for (const Row& r : worst) {
    const WindowRef& ref = (*r.sample->windows)[r.window];
    const WindowNll& nll = r.sample->measurement->windows[r.window];
    rows.push_back({Escaped(ref.title.empty() ? "(no title)" : ref.title), r.sample->split,
                    fmt::format("{}", ref.index), fmt::format("{:.4f}", nll.exact), fmt::format("{:.4f}", nll.rebuilt),
                    Nats(nll.delta()),
                    fmt::format("<div class=text>{} <b>|</b> {}</div>", Escaped(ref.before), Escaped(ref.after))});
  }
  return fmt::format("<h2>The worst requests, {}</h2>\n", what) +
         HtmlTable({"article", "split", "window", "NLL exact", "NLL then", "change", "text before and after the move"},
                   rows);
}

}  // namespace riskkv::calibrate

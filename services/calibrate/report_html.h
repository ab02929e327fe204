// Pieces of a report's page and its plots, shared by the pages of both methods. Plain HTML, no script.
#ifndef RISKKV_SERVICES_CALIBRATE_REPORT_HTML_H_
#define RISKKV_SERVICES_CALIBRATE_REPORT_HTML_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/predictor/profile.h"
#include "services/calibrate/report.h"
#include "services/calibrate/result.h"

namespace riskkv::calibrate {

inline constexpr double kPageMiB = 1024.0 * 1024.0;

// Colours that people with any colour vision tell apart.
inline constexpr char kBlue[] = "#0072b2", kOrange[] = "#d55e00", kGreen[] = "#009e73", kGrey[] = "#777777",
                      kPurple[] = "#aa4499";

std::string Escaped(const std::string& text);
// A table from its header and rows, cells already HTML.
std::string HtmlTable(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);
std::string Nats(double x);
std::string Percent(double share, int digits = 1);
std::string SignedPercent(double share);
std::string Interval(double low, double high);
std::string GroupList(const std::vector<int>& groups);
// "1.94" for 1.94 times fewer bytes.
std::string TimesFewer(int64_t full, int64_t sent);

// Everything before and after what a page says.
std::string PageStart(const std::string& title);
std::string PageEnd();
std::string Figures(const std::vector<Plot>& plots, const std::map<std::string, std::string>& pictures);

// Requests of some windows under one policy.
struct RequestSample {
  std::string split;
  const std::vector<WindowRef>* windows = nullptr;
  const Measurement* measurement = nullptr;  // of the same windows
};
// Those that lost most, with a bit of their text around the move.
std::string WorstRequests(const std::string& what, const std::vector<RequestSample>& samples);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_REPORT_HTML_H_

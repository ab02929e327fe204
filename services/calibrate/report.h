// The report of a calibration: report.json with every number, tables as CSV, and one page for people.
#ifndef RISKKV_SERVICES_CALIBRATE_REPORT_H_
#define RISKKV_SERVICES_CALIBRATE_REPORT_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "nlohmann/json.hpp"
#include "services/calibrate/calibrator.h"
#include "services/calibrate/result.h"

namespace riskkv::calibrate {

struct ReportInput {
  const CalibrateOptions& options;
  const Splits& splits;
  const CalibrationResult& result;
  const ModelFacts& facts;
};

// Writes report.json, table1.csv, table2.csv, table3.csv, rivals.csv, layouts.csv, requests.csv, index.html and, in plots/, each
// plot's gnuplot script and picture. Returns "" or what the page lacks (plots, without gnuplot) and how to get it.
absl::StatusOr<std::string> WriteReport(const ReportInput& input, const std::string& folder);

// Pieces of report.json.
nlohmann::json MeasurementJson(const Measurement& measurement);
nlohmann::json WindowRefsJson(const std::vector<WindowRef>& refs);
nlohmann::json TextSplitJson(const TextFile& file, int windows, int articles, int available);

// report.json. Only "time" differs between two runs with the same seed.
nlohmann::json ReportJson(const ReportInput& input);

// One topology on one split: a row of Table I. Perplexities are exp(mean NLL); bytes are of one request's cells.
struct TopologyRow {
  std::string split;
  std::vector<int> groups, layers;
  int64_t omitted_bytes = 0, full_bytes = 0;
  double layer_share = 0;  // omitted layers of all layers: the share without ends
  double exact_perplexity = 0, perplexity = 0;
  RiskStats stats;
  double omitted_share() const { return full_bytes > 0 ? static_cast<double>(omitted_bytes) / static_cast<double>(full_bytes) : 0; }
};
std::vector<TopologyRow> TableOne(const ReportInput& input);

// One group: a row of Table III, bytes.
struct SizeRow {
  int group = 0;
  int64_t raw = 0;  // the ridge onto hidden states, fp32: (d_in + 1) * targets * d * 4
  int64_t folded_fp32 = 0, folded_fp16 = 0;
};
std::vector<SizeRow> TableThree(const ReportInput& input);

// Change of perplexity, a share, for a change of NLL in nats per token: e^x - 1.
double PerplexityChange(double delta_nll);

// The groups that the report looks at closely: those of the admitted profile that omits most, else all of the path.
std::vector<int> FocusGroups(const CalibrationResult& result);
// Their measurement on the split that the report compares on; null when it was not taken.
const Measurement* FocusMeasurement(const CalibrationResult& result, const std::vector<int>& groups);

// Change of NLL of a table's row: names of the columns, and their values.
const char* StatsHeader();
std::string StatsFields(const RiskStats& stats);

// CSV files by name.
std::map<std::string, std::string> ReportTables(const ReportInput& input);

// A plot: a gnuplot script without terminal and output.
struct Plot {
  std::string name;     // a file name without suffix
  std::string title;
  std::string caption;  // what to see, one or two sentences
  std::string script;
};
std::vector<Plot> ReportPlots(const ReportInput& input);
// Writes the files, the plots and index.html, made from the pictures there are, into `folder`. Returns as WriteReport.
absl::StatusOr<std::string> WriteReportFolder(
    const std::string& folder, const std::map<std::string, std::string>& files, const std::vector<Plot>& plots,
    const std::function<std::string(const std::map<std::string, std::string>& pictures)>& page);

// Runs gnuplot in `folder` (made when it is not there), leaving NAME.gp and NAME.svg; the pictures by name. NOT_FOUND when
// there is no gnuplot; INTERNAL with its words when it fails.
absl::StatusOr<std::map<std::string, std::string>> RenderPlots(const std::vector<Plot>& plots, const std::string& folder);

// index.html, self-contained; pictures that are missing are left out.
std::string ReportPage(const ReportInput& input, const std::vector<Plot>& plots,
                       const std::map<std::string, std::string>& pictures);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_REPORT_H_

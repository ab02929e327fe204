// The report of a calibration of coded profiles: the frontier of every way to send a cache, on the confirmation
// windows.
#ifndef RISKKV_SERVICES_CALIBRATE_CODED_REPORT_H_
#define RISKKV_SERVICES_CALIBRATE_CODED_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/calibrate/coded_calibrator.h"
#include "services/calibrate/frontier.h"
#include "services/calibrate/report.h"

namespace riskkv::calibrate {

// Everything measured on one split: "confirm" where there is one, else "select".
struct CodedComparison {
  std::string split;
  WindowShape shape;
  double exact_nll = 0;
  int windows_available = 0, articles = 0;
  std::vector<WindowRef> windows;
  std::vector<MeasuredPolicy> policies;
};

// `set` has a codec; the omission is that of its own groups and path, where it has any. Results are kept in
// options.work_dir.
absl::StatusOr<CodedComparison> CompareCoded(Engine& engine, kernels::Backend& backend, const CalibrateOptions& options,
                                             const Splits& splits, const PredictorSet& set, Progress& progress);

struct CodedReportInput {
  const CalibrateOptions& options;
  const Splits& splits;
  const CodedCalibration& calibration;
  const CodedComparison& comparison;
  const ModelFacts& facts;
};
nlohmann::json CodedReportJson(const CodedReportInput& input);
std::string CodedReportPage(const CodedReportInput& input, const std::vector<Plot>& plots,
                            const std::map<std::string, std::string>& pictures);
// report.json, rivals.csv, index.html and plots/, as WriteReport.
absl::StatusOr<std::string> WriteCodedReport(const CodedReportInput& input, const std::string& folder);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_CODED_REPORT_H_

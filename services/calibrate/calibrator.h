// A calibration from texts to the bytes of a predictor set. No command line, no printing.
#ifndef RISKKV_SERVICES_CALIBRATE_CALIBRATOR_H_
#define RISKKV_SERVICES_CALIBRATE_CALIBRATOR_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/engine/engine.h"
#include "common/predictor/group_fitter.h"
#include "common/predictor/predictor_set.h"
#include "common/quality/articles.h"
#include "common/quality/path.h"
#include "common/quality/risk.h"
#include "kernels/backend.h"
#include "services/calibrate/options.h"
#include "services/calibrate/plan.h"

namespace riskkv::calibrate {

struct Splits {
  TextFile fit, select;
  std::optional<TextFile> confirm;
};
// Reads the files and checks that no article is in two.
absl::StatusOr<Splits> ReadSplits(const CalibrateOptions& options);

struct BudgetResult {
  double epsilon = 0;
  std::string profile;  // "exact" when nothing is admissible
  Gate gate = Gate::kUpper90;
};

struct CalibrationResult {
  std::string bytes;                        // the set's file
  std::shared_ptr<const PredictorSet> set;  // the same, opened
  std::vector<FittedGroup> fitted;
  RiskPath path;
  std::map<std::string, Measurement> measured;  // by groups ("0+3"), on the selection windows
  std::vector<BudgetResult> budgets;
  WindowCounts windows;
  WindowCounts articles;
  double exact_nll = 0;  // on the selection windows
  double seconds_total = 0;
};

class Calibrator {
 public:
  // Everything must outlive it. The engine must be idle, with cells for a whole window.
  Calibrator(Engine& engine, kernels::Backend& backend, const CalibrateOptions& options, const Clock& clock,
             Progress& progress);
  absl::StatusOr<CalibrationResult> Run(const Splits& splits);

 private:
  struct Work;  // windows, meters, the set under measurement
  absl::Status Cut(const Splits& splits, Work& work);
  absl::Status CutScored(const Splits& splits, Work& work);
  absl::Status MeasureRates(Work& work);
  absl::Status FitTheTime(const Splits& splits, Work& work);  // the numbers of windows, and the horizon
  absl::Status Fit(Work& work);
  absl::Status Select(Work& work);
  absl::Status Probe(Work& work);
  absl::Status Admit(Work& work);
  absl::StatusOr<RiskStats> Measure(Work& work, RiskMeter& meter, const std::vector<int>& groups);
  absl::Status AddFitWindow(Work& work, std::size_t i);
  absl::Status Finish(const Splits& splits, Work& work);

  Engine& engine_;
  kernels::Backend& backend_;
  CalibrateOptions options_;  // the horizon may shrink to a time budget
  const Clock& clock_;
  Progress& progress_;
};

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_CALIBRATOR_H_

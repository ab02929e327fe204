// A calibration from texts to the bytes of a predictor set. No command line, no printing.
#ifndef RISKKV_SERVICES_CALIBRATE_CALIBRATOR_H_
#define RISKKV_SERVICES_CALIBRATE_CALIBRATOR_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/engine/engine.h"
#include "common/quality/articles.h"
#include "common/quality/risk.h"
#include "kernels/backend.h"
#include "services/calibrate/options.h"
#include "services/calibrate/result.h"
#include "services/calibrate/timed_engine.h"

namespace riskkv::calibrate {

struct Splits {
  TextFile fit, select;
  std::optional<TextFile> confirm;
};
// Reads the files and checks that no article is in two.
absl::StatusOr<Splits> ReadSplits(const CalibrateOptions& options);

// Everything computed from a window is kept in options.work_dir as it comes, so that a run that was interrupted, however it
// ended, goes on there and ends with the same bytes. One run, one thread.
class Calibrator {
 public:
  // Everything must outlive it. The engine must be idle, with cells for a whole window.
  Calibrator(Engine& engine, kernels::Backend& backend, const CalibrateOptions& options, const Clock& clock,
             Progress& progress);
  absl::StatusOr<CalibrationResult> Run(const Splits& splits);

 private:
  struct Work;       // windows, meters, results kept (calibrator_work.h)
  struct LayoutRun;  // one layout's groups, predictors and path

  // calibrator.cc
  absl::Status Cut(const Splits& splits, Work& work);
  absl::Status CutScored(const Splits& splits, Work& work);
  absl::Status PrepareLayouts(Work& work);
  absl::Status OpenCoded(Work& work);
  absl::Status Finish(const Splits& splits, Work& work);
  int PlannedSteps(const Work& work) const;

  // calibrator_time.cc: the numbers of windows, and the horizon, that fit options.seconds
  absl::Status FitTheTime(const Splits& splits, Work& work);
  absl::Status MeasureRates(Work& work);
  absl::Status ApplyPlan(const Splits& splits, const WindowCounts& counts, int horizon, Work& work);

  // calibrator_fit.cc: one pass over the fit windows serves every layout
  absl::Status Fit(Work& work);
  absl::Status AddFitWindow(Work& work, std::size_t i);
  absl::Status SaveFit(Work& work);
  absl::Status RestoreFit(Work& work);
  std::string FitKey(const Work& work) const;
  absl::Status Solve(Work& work, LayoutRun& layout);

  // calibrator_select.cc
  absl::Status Select(Work& work, LayoutRun& layout);
  absl::Status Probe(Work& work, LayoutRun& layout);
  absl::Status Admit(Work& work, LayoutRun& layout);
  absl::StatusOr<RiskStats> Measure(LayoutRun& layout, RiskMeter& meter, MeasurementMap& into,
                                    const std::vector<int>& groups);
  void AddProfiles(LayoutRun& layout);

  // calibrator_compare.cc: what a report has beside
  absl::Status Compare(const Splits& splits, Work& work);
  absl::Status ComparePolicies(Work& work, LayoutRun& layout, RiskMeter& meter);
  absl::Status CompareDtypes(Work& work, LayoutRun& layout, RiskMeter& meter);
  absl::Status CompareHistories(const TextFile& text, Work& work, LayoutRun& layout);
  absl::Status CompareLayouts(Work& work);

  TimedEngine engine_;
  kernels::Backend& backend_;
  CalibrateOptions options_;  // the horizon may shrink to a time budget
  const Clock& clock_;
  Progress& progress_;
};

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_CALIBRATOR_H_

// What a Calibrator holds while it runs. Private to calibrator*.cc.
#ifndef RISKKV_SERVICES_CALIBRATE_CALIBRATOR_WORK_H_
#define RISKKV_SERVICES_CALIBRATE_CALIBRATOR_WORK_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/predictor/group_fitter.h"
#include "common/predictor/rebuild.h"
#include "common/quality/result_store.h"
#include "services/calibrate/calibrator.h"
#include "services/calibrate/frontier.h"
#include "services/calibrate/plan.h"

namespace riskkv::calibrate {

struct Calibrator::LayoutRun {
  std::string name;
  std::vector<GroupSpec> groups;
  std::unique_ptr<GroupFitter> fitter;  // until it is solved
  std::vector<FittedGroup> fitted;
  SetInfo info;
  std::vector<GroupTensors> tensors;
  std::shared_ptr<const PredictorSet> trial;  // weights as they will be shipped; what is measured
  std::unique_ptr<UploadedSet> uploaded;
  RiskPath path;
  MeasurementMap select, confirm;
  std::vector<BudgetResult> budgets;
};

struct Calibrator::Work {
  CalibrationResult result;
  std::vector<LayoutRun> layouts;  // the first is the set's
  WindowSet fit, select, confirm;
  std::vector<bool> held_out;
  std::size_t fitted_windows = 0;
  int widest = 0;  // d_in of the widest group
  int rows_per_window = 1;
  std::unique_ptr<ResultStore> store;
  std::unique_ptr<CodedSource> coded;                      // of options.coded_set; null without
  std::unique_ptr<RiskMeter> select_meter, confirm_meter;  // no confirm_meter without a confirmation split
  Rates rates;
  absl::Duration start;
};

// Weights of a set by the name of its option, "fp32" or "fp16".
inline kernels::WeightType WeightTypeOf(const std::string& dtype) {
  return dtype == "fp16" ? kernels::WeightType::kF16 : kernels::WeightType::kF32;
}

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_CALIBRATOR_WORK_H_

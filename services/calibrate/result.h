// What a calibration found: the set, and every number behind it.
#ifndef RISKKV_SERVICES_CALIBRATE_RESULT_H_
#define RISKKV_SERVICES_CALIBRATE_RESULT_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/predictor/group_fitter.h"
#include "common/predictor/predictor_set.h"
#include "common/quality/gate_trials.h"
#include "common/quality/path.h"
#include "common/quality/risk.h"
#include "common/quality/rivals.h"
#include "services/calibrate/options.h"
#include "services/calibrate/plan.h"

namespace riskkv::calibrate {

struct BudgetResult {
  double epsilon = 0;
  std::string profile;  // "exact" when nothing is admissible
  Gate gate = Gate::kUpper90;
  std::vector<int> groups;  // omitted
};

// A window as a person finds it again.
struct WindowRef {
  int article = 0;    // index in the split's file
  std::string title;  // of the article, "" without one
  int index = 0;      // of the window in its article
  std::string before, after;  // a bit of the text on both sides of the move, UTF-8
};

// Measurements by groups ("0+3").
using MeasurementMap = std::map<std::string, Measurement>;
std::string GroupsKey(const std::vector<int>& groups);

// One layout, fitted and followed along its path.
struct LayoutResult {
  std::string name;
  std::vector<GroupInfo> groups;
  RiskPath path;
  MeasurementMap select, confirm;
  std::vector<BudgetResult> budgets;
  int64_t weights_bytes = 0;  // of all groups in fp32
};

// The same groups rebuilt with weights of another type.
struct DtypeResult {
  std::string dtype;
  std::vector<int> groups;
  Measurement measurement;
};

// The same groups at another length of history; no windows where the text has none so long.
struct HistoryResult {
  int history = 0;
  std::vector<int> groups;
  int64_t rebuilt_cells = 0, sent_bytes = 0, full_bytes = 0;
  int windows_available = 0;
  Measurement measurement;
};

// What a report compares beside the calibration itself. `split` is what all of it is measured on: "confirm" where there is
// one, else "select".
struct Comparison {
  std::string split;
  std::vector<MeasuredPolicy> policies;  // MeasureFrontier
  std::vector<DtypeResult> dtypes;
  std::vector<HistoryResult> histories;  // options.histories
  std::vector<LayoutResult> layouts;     // the others, in the order asked for
  std::vector<GateTrials> trials;     // empty without a confirmation split
};

struct EngineTime {
  double total = 0;   // seconds, of the whole calibration
  double engine = 0;  // of them in the engine's own decoding: the floor
  int64_t tokens = 0;
};

struct CalibrationResult {
  std::string bytes;                        // the set's file
  std::shared_ptr<const PredictorSet> set;  // the same, opened
  std::vector<FittedGroup> fitted;
  RiskPath path;
  MeasurementMap measured, confirmed;  // on the selection and on the confirmation windows
  std::vector<BudgetResult> budgets;
  WindowCounts windows;
  WindowCounts articles;
  WindowCounts available;  // windows the texts have
  WindowShape shape;       // as measured: a time budget may have shortened the horizon
  std::vector<WindowRef> select_windows, confirm_windows;
  double exact_nll = 0;          // on the selection windows
  double exact_nll_confirm = 0;  // 0 without
  int hidden_width = 0;          // of the model, for the size of an unfolded ridge
  Comparison comparison;         // empty without a report
  EngineTime time;
  double seconds_total = 0;
};

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_RESULT_H_

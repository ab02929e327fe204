// `riskkv calibrate --method coded`, and `riskkv evaluate` of a coded profile.
#ifndef RISKKV_SERVICES_CALIBRATE_CODED_COMMANDS_H_
#define RISKKV_SERVICES_CALIBRATE_CODED_COMMANDS_H_

#include "services/calibrate/options.h"

namespace riskkv::calibrate {

// As RunCalibrate and RunEvaluate (commands.h).
int RunCalibrateCoded(const CalibrateOptions& options);
// The profile is "coded-EPS" of the set, or "coded-step-S": the same step S everywhere, for a chart.
int RunEvaluateCoded(const EvaluateOptions& options);

}  // namespace riskkv::calibrate

#endif  // RISKKV_SERVICES_CALIBRATE_CODED_COMMANDS_H_
